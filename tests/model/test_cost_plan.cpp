// How long a run takes, as arithmetic, and rates that come from measuring.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <tuple>

#include "model/cost_plan.h"
#include "model/measure_copies.h"
#include "model/measure_rates.h"
#include "model/vggt.h"

namespace vggt {
namespace {

constexpr double kClose = 1e-9;

/// Two pairs of blocks over frames of 6 patches and 2 special tokens.
MemoryRequest request() {
  MemoryRequest r;
  r.config.embed_dim = 8;
  r.config.patch_size = 2;
  r.config.num_register_tokens = 1;
  r.config.depth = 2;
  r.config.vit_depth = 3;
  r.config.intermediate_layers = {0, 0, 1, 1};
  r.heads = {.camera = true, .depth = true};
  r.frames = 5;
  r.height = 4;
  r.width = 6;
  return r;
}

/// A plan with these stages and nothing else known of it.
MemoryPlan plan_of(const std::vector<std::string>& stages) {
  MemoryPlan plan;
  for (const std::string& stage : stages) plan.stages.push_back({stage, {}, {}});
  return plan;
}

const MemoryPlan kPlan = plan_of({"patch_embed", "frame_block", "global_block", "camera_head", "depth_head"});

double seconds_of(const std::vector<StageSeconds>& stages, const std::string& name) {
  for (const StageSeconds& stage : stages) {
    if (stage.stage == name) return stage.seconds;
  }
  throw std::invalid_argument(name);
}

TEST(CostPlan, EveryStageByHand) {
  Rates rates;
  rates.vit_token = 1;
  rates.block_token = 100;
  rates.frame_pair = 0.03;
  rates.pair = 0.01;
  rates.kept_token = 10000;
  rates.patch_pixel = 0.5;
  rates.camera_fixed = 7;
  rates.camera_frame = 3;
  rates.depth_frame = 2;
  rates.depth_pixel = 0.25;
  const auto stages = predict_seconds(request(), kPlan, rates);
  ASSERT_EQ(stages.size(), 4u);  // both kinds of blocks are the aggregator's
  const double tokens = 5 * 8;
  EXPECT_NEAR(seconds_of(stages, "patch_embed"), 5 * 24 * 0.5 + 3 * (tokens + tokens * 8 * 0.03), kClose);
  EXPECT_NEAR(seconds_of(stages, "aggregator"),
              2 * (2 * tokens * 100 + tokens * (8 * 0.03 + tokens * 0.01)) + tokens * 10000, kClose);
  EXPECT_NEAR(seconds_of(stages, "camera_head"), 7 + 5 * 3, kClose);
  EXPECT_NEAR(seconds_of(stages, "depth_head"), 5 * (2 + 24 * 0.25), kClose);
  EXPECT_NEAR(total_seconds(stages),
              seconds_of(stages, "patch_embed") + seconds_of(stages, "aggregator") + 22 + 40, kClose);
}

TEST(CostPlan, OnlyTheLayersThatAreReadAreRun) {
  Rates rates;
  rates.block_least = 1;
  MemoryRequest r = request();
  r.heads = {.depth = true};
  r.config.intermediate_layers = {0, 0, 0, 0};
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"), 2, kClose);
}

TEST(CostPlan, ABlockTakesSomeTimeHoweverFewItsTokens) {
  Rates rates;
  rates.block_token = 1e-6;
  rates.block_least = 0.5;
  EXPECT_NEAR(seconds_of(predict_seconds(request(), kPlan, rates), "aggregator"), 4 * 0.5, kClose);
}

TEST(CostPlan, TheTrackersIterationsTakeSomeTimeHoweverFewItsPoints) {
  Rates rates;
  rates.track_frame = 1;
  rates.track_token = 0.01;
  rates.track_pair = 0.001;
  rates.track_least = 20;
  MemoryRequest r = request();
  const MemoryPlan plan = plan_of({"track_head"});
  r.query_points = 1;
  EXPECT_NEAR(seconds_of(predict_seconds(r, plan, rates), "track_head"), 5 + 20, kClose);
  r.query_points = 1000;
  EXPECT_NEAR(seconds_of(predict_seconds(r, plan, rates), "track_head"),
              5 + 1064 * 5 * 0.01 + 1000 * 5 * 24 * 0.001, kClose);
}

TEST(CostPlan, MergedBlocksFollowTheCountsOfMerging) {
  Rates rates;
  rates.block_token = 1;
  rates.merged_token = 2;
  rates.match_pair = 0.1;
  rates.pair = 0.001;
  rates.frame_pair = 0.002;
  MemoryRequest r = request();
  r.merge = MergeOptions{.start = 1};
  const MergeCounts counts = merge_counts(5, 2, 3, 2, *r.merge);
  const double N = 40, d = static_cast<double>(counts.destinations),
               M = static_cast<double>(counts.most_rows());
  ASSERT_LT(M, N);
  const double frame_blocks = 2 * (N + N * 8 * 0.002), exact = N + N * N * 0.001;
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"),
              frame_blocks + exact + 2 * N + (N - d) * d * 0.1 + M * M * 0.001, kClose);
  r.merge->refresh = 4;
  r.merge->metric = r.config.embed_dim / 2;
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"),
              frame_blocks + exact + 2 * N + (N - d) * d * 0.1 / 8 + M * M * 0.001, kClose);
  r.merge->metric = 2 * r.config.embed_dim;
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"),
              frame_blocks + exact + 2 * N + (N - d) * d * 0.1 / 4 + M * M * 0.001, kClose);
  r.merge->start = 9;  // no block merges
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"), frame_blocks + 2 * exact, kClose);
  r.merge = MergeOptions{.ratio = 0};
  EXPECT_NEAR(seconds_of(predict_seconds(r, kPlan, rates), "aggregator"), frame_blocks + 2 * exact, kClose);
}

TEST(CostPlan, RanksShareTheHeadsOrPassKeysOn) {
  Rates rates;
  rates.block_token = 1;
  rates.pair = 0.01;
  rates.exchange = 0.001;
  rates.exchange_least = 0.1;
  MemoryRequest r = request();
  r.config.num_heads = 4;
  r.ranks = 2;
  const double own = 3 * 8, all = 5 * 8, row = 8 * 4;  // tokens of the rank with most frames, bytes of one
  const auto aggregator = [&](const MemoryPlan& plan) {
    return seconds_of(predict_seconds(r, plan, rates), "aggregator");
  };
  const double shared =
      2 * (own + own + all * all / 2 * 0.01 + (1.5 * own + own) * row / 2 * 0.001 + 4 * 0.1);
  EXPECT_NEAR(aggregator(kPlan), shared, kClose);
  r.config.num_heads = 3;
  EXPECT_NEAR(aggregator(kPlan), 2 * (own + own + own * all * 0.01), kClose);
  rates.exchange = 1;  // slower than the attention beside it
  EXPECT_NEAR(aggregator(kPlan), 2 * (own + own + 2 * own * row + 0.1), kClose);
  MemoryPlan streamed = kPlan;
  streamed.schedule.qkv = Place::host;  // always by heads
  rates.exchange = 0.001;
  EXPECT_NEAR(aggregator(streamed), shared + 2 * all * all * (2. / 3 - 1. / 2) * 0.01, kClose);
}

TEST(CostPlan, RanksExchangeWhatMatchingTakesAndGives) {
  Rates rates;
  rates.exchange = 0.001;
  rates.exchange_least = 0.1;
  MemoryRequest r = request();
  r.config.num_heads = 4;
  r.ranks = 2;
  r.merge = MergeOptions{};
  const auto counts = merge_counts(5, 2, 3, 2, *r.merge);
  const auto d = static_cast<double>(counts.destinations), N = static_cast<double>(counts.tokens);
  const auto seconds = [&](int64_t refresh) {
    r.merge->refresh = refresh;
    return seconds_of(predict_seconds(r, kPlan, rates), "aggregator");
  };
  const double matching = (d * 8 * 4 + (N - d) * 12) / 2 * 0.001 + 3 * 0.1;  // of one of two blocks
  EXPECT_NEAR(seconds(1) - seconds(2), 2 * matching / 2, kClose);
}

TEST(CostPlan, CopiesRunBesideBlocksAndBeforeTheCameraHead) {
  Rates rates;
  rates.block_least = 1;
  rates.camera_fixed = 1;
  rates.to_device = 0.1;
  rates.to_host = 0.2;
  rates.from_scratch = rates.to_scratch = 0.3;
  MemoryPlan plan = kPlan;
  plan.stages[1].traffic = {.to_device = 100, .to_host = 10, .from_scratch = 0, .to_scratch = 0};
  plan.stages[2].traffic = {.to_device = 10, .to_host = 10, .from_scratch = 20, .to_scratch = 30};
  plan.stages[3].traffic = {.to_device = 50};
  const auto stages = predict_seconds(request(), plan, rates);
  EXPECT_NEAR(stages[1].compute, 4, kClose);
  EXPECT_NEAR(stages[1].copy, 10 + 15, kClose);  // the slowest way of each kind of blocks
  EXPECT_NEAR(stages[1].seconds, 25, kClose);
  EXPECT_NEAR(stages[2].seconds, 1 + 5, kClose);
  rates.block_least = 20;  // where computing takes longer, a part of the copies' time shows
  EXPECT_NEAR(predict_seconds(request(), plan, rates)[1].seconds, 80 + 0.7 * 25, kClose);
}

TEST(CostPlan, FinishedLayersTakeNoTime) {
  const std::vector<StageSeconds> whole = {
      {"patch_embed", 3, 1, 4}, {"aggregator", 8, 2, 10}, {"camera_head", 5, 0, 5}};
  for (const auto& [finished, embed, trunk] :
       {std::tuple(0, 4., 10.), {1, 0., 5.}, {2, 0., 0.}, {9, 0., 0.}, {-1, 4., 10.}}) {
    std::vector<StageSeconds> left = whole;
    leave_out_layers(finished, request(), left);
    EXPECT_NEAR(seconds_of(left, "patch_embed"), embed, kClose) << finished;
    EXPECT_NEAR(seconds_of(left, "aggregator"), trunk, kClose) << finished;
    EXPECT_EQ(seconds_of(left, "camera_head"), 5) << finished;
  }
}

TEST(CostPlan, StagesThatACheckpointHasTakeNoMemory) {
  const auto stages = [](int64_t finished) {
    MemoryPlan plan;
    for (const char* name : {"patch_embed", "frame_block", "global_block", "camera_head"})
      plan.stages.push_back({name, {}, {}});
    leave_out_layers(finished, request(), plan);
    std::string names;
    for (const StageMemory& stage : plan.stages) names += stage.stage + " ";
    return names;
  };
  EXPECT_EQ(stages(0), "patch_embed frame_block global_block camera_head ");
  EXPECT_EQ(stages(1), "frame_block global_block camera_head ");
  EXPECT_EQ(stages(2), "camera_head ");
}

TEST(CostPlan, NumbersThatPassSixtyThreeBitsStayPositive) {
  MemoryRequest r = request();
  r.frames = int64_t{1} << 40;
  Rates rates;
  rates.pair = rates.match_pair = 1e-12;
  const double exact = seconds_of(predict_seconds(r, kPlan, rates), "aggregator");
  EXPECT_GT(exact, std::ldexp(1, 86) * 1e-12);
  EXPECT_TRUE(std::isfinite(exact));
}

Config nano() {
  std::ifstream file(VGGT_FIXTURES "/golden/nano/config.json");
  return read_config(std::string(std::istreambuf_iterator<char>(file), {}), {});
}

TEST(MeasureRates, GivesTheRatesOfTheHeadsThatRun) {
  ModelOptions options;
  options.heads = {.camera = true, .depth = true, .points = false, .tracks = true};
  Rates rates;
  double largest = 1;
  for (int tries = 0; tries < 3 && !(largest < 1); ++tries) {  // a busy machine may stop us for a second
    rates = measure_rates(nano(), options);
    largest = 0;
    visit_rates(rates, [&](const char*, double rate) { largest = std::max(largest, rate); });
  }
  visit_rates(rates, [](const char* name, double rate) {
    EXPECT_TRUE(std::isfinite(rate) && rate >= 0 && rate < 1) << name << " " << rate;
  });
  for (const double rate : {rates.block_token + rates.frame_pair, rates.pair, rates.vit_token,
                            rates.block_least, rates.merged_token, rates.match_pair, rates.patch_pixel,
                            rates.camera_fixed + rates.camera_frame, rates.depth_frame + rates.depth_pixel,
                            rates.track_frame + rates.track_pixel, rates.track_pair + rates.track_token})
    EXPECT_GT(rate, 0);
  EXPECT_EQ(rates.point_frame + rates.point_pixel, 0);
  EXPECT_EQ(rates.to_device + rates.to_host, 0);  // the CPU copies nothing
}

TEST(MeasureRates, StopsWhereItIsTold) {
  struct Stop {};
  ModelOptions options;
  options.heads.camera = true;
  int checks = 0;
  const auto stop = [&] {
    if (++checks == 3) throw Stop();
  };
  EXPECT_THROW(measure_rates(nano(), options, kMeasureBytes, stop), Stop);
}

TEST(MeasureRates, AScratchFolderIsLeftAsItWas) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "vggt_cost_plan";
  fs::create_directories(folder);
  Rates rates;
  measure_scratch(folder, rates);
  EXPECT_GT(rates.to_scratch, 0);
  EXPECT_GT(rates.from_scratch, 0);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove(folder);
  EXPECT_THROW(measure_scratch(folder, rates), std::system_error);
}

}  // namespace
}  // namespace vggt
