// Whether a run merges tokens: by the seconds that it would save, or because exact attention does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/run/merging.h"
#include "app/run/plan_table.h"
#include "model/cost_plan.h"

namespace vggt {
namespace {

const std::optional<Rates> kUnknown;

/// A small network on the CPU, 40 frames of 8 × 6 patches: pairs of tokens are nearly all that it does.
MemoryRequest request() {
  MemoryRequest r;
  r.config.embed_dim = 64;
  r.config.num_heads = r.config.vit_num_heads = r.config.camera_num_heads = 4;
  r.config.depth = r.config.vit_depth = 2;
  r.config.intermediate_layers = {0, 0, 1, 1};
  r.heads = {.camera = true, .depth = true};
  r.frames = 40;
  r.height = 84;
  r.width = 112;
  r.merge = MergeOptions{.start = 0, .ratio = 0.9, .protect = 0.1, .seed = 5};
  return r;
}

MemoryRequest exact(MemoryRequest r) {
  r.merge = std::nullopt;
  return r;
}

double seconds(const MemoryRequest& r, const Rates& rates) {
  return total_seconds(predict_seconds(r, plan_memory(r), rates));
}

Rates scaled(Rates rates, double factor) {
  visit_rates(rates, [&](const char*, double& rate) { rate *= factor; });
  return rates;
}

/// Rates of these ratios with which merging saves so many seconds.
Rates saving(const Rates& rates, double wanted) {
  return scaled(rates, wanted / (seconds(exact(request()), rates) - seconds(request(), rates)));
}

Rates pairs_alone() {
  Rates rates;
  rates.pair = rates.frame_pair = 1e-9;
  return rates;
}

/// On a GPU that may take nothing of the host, without the dense heads, which take most of the memory.
MemoryRequest on_gpu() {
  MemoryRequest r = request();
  r.gpu = CudaDevice{.capability = 90, .multiprocessors = 132, .strict = true, .mma = true, .wgmma = true};
  r.precision = Precision::bf16;
  r.heads = {.camera = true};
  r.frames = 4000;
  r.budget.host = 0;
  return r;
}

/// The smallest budget of the device that a plan keeps.
int64_t least_budget(MemoryRequest r) {
  int64_t too_few = 0, enough = int64_t{1} << 40;
  while (enough - too_few > 1) {
    r.budget.device = (too_few + enough) / 2;
    (plan_memory(r).fits ? enough : too_few) = r.budget.device;
  }
  return enough;
}

TEST(Merging, OnAndOffAskNobody) {
  for (const std::optional<Rates>& rates : {kUnknown, std::optional(saving(pairs_alone(), 1e6))}) {
    const MergeChoice on = choose_merging(request(), "on", rates),
                      off = choose_merging(request(), "off", rates);
    ASSERT_TRUE(on.merge);
    EXPECT_EQ(on.merge->seed, 5U);
    EXPECT_EQ(on.note, "");
    EXPECT_FALSE(off.merge);
    EXPECT_EQ(off.note, "");
  }
  EXPECT_FALSE(choose_merging(request(), "off", saving(pairs_alone(), 1e-6)).merge);
  EXPECT_TRUE(choose_merging(request(), "on", saving(pairs_alone(), 1e-6)).merge);
}

TEST(Merging, OnOneFrameThereIsNothingToMerge) {
  MemoryRequest one = request();
  one.frames = 1;
  const MergeChoice choice = choose_merging(one, "on", kUnknown);
  EXPECT_FALSE(choice.merge);
  EXPECT_NE(choice.note.find("attention is exact"), std::string::npos) << choice.note;
}

TEST(Merging, AutoMergesWhereItSavesHalfTheTimeAndSaysSo) {
  const Rates rates = saving(pairs_alone(), 2 * kMergeSeconds);
  const double all = seconds(exact(request()), rates), merged = seconds(request(), rates);
  ASSERT_LT(merged, all / 2);
  const MergeChoice choice = choose_merging(request(), "auto", rates);
  ASSERT_TRUE(choice.merge);
  EXPECT_EQ(choice.merge->seed, 5U);
  const auto whole = [](double value) { return std::to_string(std::lround(value)) + " s"; };
  EXPECT_NE(choice.note.find("about " + whole(merged)), std::string::npos) << choice.note;
  EXPECT_NE(choice.note.find("would take " + whole(all)), std::string::npos) << choice.note;
  EXPECT_NE(choice.note.find("--merge off"), std::string::npos) << choice.note;
  EXPECT_EQ(std::ranges::count(choice.note, '\n'), 0);
}

TEST(Merging, AutoLeavesAShortRunAlone) {
  EXPECT_TRUE(choose_merging(request(), "auto", saving(pairs_alone(), 1.01 * kMergeSeconds)).merge);
  const MergeChoice choice = choose_merging(request(), "auto", saving(pairs_alone(), 0.99 * kMergeSeconds));
  EXPECT_FALSE(choice.merge);
  EXPECT_EQ(choice.note, "");
}

TEST(Merging, AutoDoesNotMergeForLessThanHalfTheTime) {
  Rates rates = pairs_alone();
  rates.merged_token = rates.block_token = 1e-5;  // what merging does not save
  rates = saving(rates, 100 * kMergeSeconds);
  ASSERT_GT(seconds(request(), rates), seconds(exact(request()), rates) / 2);
  EXPECT_FALSE(choose_merging(request(), "auto", rates).merge);
}

TEST(Merging, AutoMergesWhereExactAttentionDoesNotFit) {
  MemoryRequest tight = on_gpu();
  const int64_t least_exact = least_budget(exact(tight)), least_merged = least_budget(tight);
  ASSERT_LT(least_merged, least_exact);
  tight.budget.device = (least_exact + least_merged) / 2;
  const Rates no_gain = saving(pairs_alone(), 1e-3);
  for (const std::optional<Rates>& rates : {std::optional(no_gain), kUnknown}) {
    const MergeChoice choice = choose_merging(tight, "auto", rates);
    EXPECT_TRUE(choice.merge);
    EXPECT_NE(choice.note.find("does not fit"), std::string::npos) << choice.note;
    EXPECT_FALSE(choose_merging(tight, "off", rates).merge);
  }
  tight.budget.device = least_exact;
  EXPECT_FALSE(choose_merging(tight, "auto", no_gain).merge);
  EXPECT_FALSE(choose_merging(tight, "auto", kUnknown).merge);
}

TEST(Merging, AutoDoesNotMergeWhereThatDoesNotFitEither) {
  MemoryRequest tight = on_gpu();
  tight.budget.device = least_budget(tight) - 1;
  const MergeChoice choice = choose_merging(tight, "auto", saving(pairs_alone(), 1e6));
  EXPECT_FALSE(choice.merge);
  EXPECT_EQ(choice.note, "");
}

TEST(Merging, AutoDoesNotMergeWhereTheRatesAreNotKnown) {
  const MergeChoice choice = choose_merging(request(), "auto", kUnknown);
  EXPECT_FALSE(choice.merge);
  EXPECT_EQ(choice.note, "");
}

// A run of seconds ends before it would write a state inside the trunk.
TEST(NetworkPlanTest, CountsTheStatesOfTheTrunkThatARunHasTimeToKeep) {
  MemoryRequest r = exact(request());
  const int64_t none = plan_network(r, pairs_alone()).memory.scratch_bytes;
  r.checkpoints = true;
  const double interval = CheckpointOptions().seconds, trunk = seconds(r, pairs_alone());
  const auto bytes_in = [&](double intervals) {
    return plan_network(r, scaled(pairs_alone(), intervals * interval / (1.25 * trunk)))
               .memory.scratch_bytes -
           none;
  };
  const int64_t maps = bytes_in(0.5), most = plan_network(r, kUnknown).memory.scratch_bytes - none;
  EXPECT_GT(maps, 0);
  EXPECT_GT(bytes_in(1.5), maps);
  EXPECT_EQ(bytes_in(2.5), maps + 2 * (bytes_in(1.5) - maps));
  EXPECT_EQ(bytes_in(100), most);
  EXPECT_EQ(bytes_in(2.5), most);
}

}  // namespace
}  // namespace vggt
