// What runs took beside their network, and what a plan says of them: units, and that nothing about the file
// can go wrong for the run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/run/plan_table.h"
#include "app/run/rates_cache.h"
#include "app/run/stage_history.h"
#include "app/run/stage_work.h"
#include "tests/support/variable.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const std::string kKey = "vggt-recon " VGGT_VERSION "; here", kOther = "vggt-recon " VGGT_VERSION "; there";

std::vector<double> seconds_in(const std::string& cache, const std::string& key) {
  std::vector<double> seconds;
  for (const StageRun& run : runs_in_cache(cache, key)) seconds.push_back(run.seconds);
  return seconds;
}

TEST(StageHistory, ReadsBackTheLastRuns) {
  std::string cache = cache_with_runs("", {{kKey, {2e6, 0.125}}, {kOther, {3, 4}}});
  cache = cache_with_runs(cache, {{kKey, {2e6, 0.25}}});
  EXPECT_EQ(seconds_in(cache, kKey), (std::vector<double>{0.125, 0.25}));
  EXPECT_EQ(runs_in_cache(cache, kKey)[0].units, 2e6);
  EXPECT_EQ(seconds_in(cache, kOther), std::vector<double>{4});
  EXPECT_TRUE(runs_in_cache(cache, "vggt-recon " VGGT_VERSION "; nowhere").empty());
  for (int i = 0; i < 20; ++i) cache = cache_with_runs(cache, {{kKey, {1, static_cast<double>(i)}}});
  EXPECT_EQ(seconds_in(cache, kKey), (std::vector<double>{0.125, 0.25, 15, 16, 17, 18, 19}));
  for (int i = 0; i < 50; ++i) cache = cache_with_runs(cache, {{kKey, {std::pow(2, i), 1}}});
  EXPECT_EQ(seconds_in(cache, kKey), std::vector<double>(30, 1));
  EXPECT_EQ(seconds_in(cache, kOther), std::vector<double>{4});
}

TEST(StageHistory, KeepsTheKeysThatWereLearnedLast) {
  std::string cache;
  for (int i = 0; i < 300; ++i)
    cache = cache_with_runs(cache, {{kOther, {1, 1}}, {kKey + std::to_string(i), {1, 1}}});
  EXPECT_EQ(seconds_in(cache, kOther).size(), 5u);
  EXPECT_TRUE(runs_in_cache(cache, kKey + "0").empty());
  EXPECT_FALSE(runs_in_cache(cache, kKey + "299").empty());
  EXPECT_LT(cache.size(), 400'000u);
}

TEST(StageHistory, RunsOfOtherVersionsGo) {
  const std::string old = cache_with_runs("", {{"vggt-recon 0.0.0; here", {1, 1}}});
  ASSERT_FALSE(runs_in_cache(old, "vggt-recon 0.0.0; here").empty());
  const std::string cache = cache_with_runs(old, {{kKey, {1, 1}}});
  EXPECT_TRUE(runs_in_cache(cache, "vggt-recon 0.0.0; here").empty());
  EXPECT_FALSE(runs_in_cache(cache, kKey).empty());
}

TEST(StageHistory, AnotherTextIsNoCache) {
  const std::string good = cache_with_runs("", {{kKey, {2, 0.5}}});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string("\xff"),
        good.substr(0, good.size() / 2), changed("\"format\": 1", "\"format\": 2"), changed("0.5", "-2.5"),
        changed("0.5", "1e300"), changed("0.5", "null"), changed("2.0", "0"), changed("2.0", "1e-305"),
        changed("2.0", "\"2\""), changed("\"units\"", "\"number\""), changed("\"stages\"", "\"rates\"")}) {
    EXPECT_TRUE(runs_in_cache(text, kKey).empty()) << text;
    EXPECT_EQ(seconds_in(cache_with_runs(text, {{kKey, {2, 0.25}}}), kKey), std::vector<double>{0.25});
  }
  // A clock that went wrong teaches nothing.
  for (const StageRun run : {StageRun{0, 1}, {1, -1}, {1, std::nan("")}, {std::nan(""), 1}})
    EXPECT_TRUE(runs_in_cache(cache_with_runs("", {{kKey, run}}), kKey).empty());
}

TEST(StageHistory, PredictsByTheRunsOfTheNearestSize) {
  const std::vector<StageRun> one{StageRun{10, 2}};
  EXPECT_DOUBLE_EQ(seconds_by(one, 40), 8);
  const std::vector<StageRun> sizes{StageRun{10, 2}, {1000, 100}, {1100, 110}, {12, 2.4}};
  EXPECT_DOUBLE_EQ(seconds_by(sizes, 11), 2.2);
  EXPECT_DOUBLE_EQ(seconds_by(sizes, 1), 0.2);
  EXPECT_DOUBLE_EQ(seconds_by(sizes, 5000), 500);
}

TEST(StageHistory, AnAdjustmentIsPredictedByOnesOfHalfToTwiceItsUnits) {
  const std::vector<StageRun> none, runs{{10, 1}, {100, 20}, {104, 26}, {110, 33}, {1000, 9000}};
  const auto adjustment_seconds = [](const std::vector<StageRun>& of, double units) {
    return seconds_by_alike(of, units, 2);
  };
  EXPECT_DOUBLE_EQ(*adjustment_seconds(runs, 105), 26.25);
  EXPECT_DOUBLE_EQ(*adjustment_seconds(runs, 50), 12.5);
  EXPECT_DOUBLE_EQ(*adjustment_seconds(runs, 220), 55);
  EXPECT_DOUBLE_EQ(*adjustment_seconds(runs, 20), 2);
  EXPECT_FALSE(adjustment_seconds(runs, 21));
  EXPECT_FALSE(adjustment_seconds(runs, 49));
  EXPECT_FALSE(adjustment_seconds(runs, 221));
  EXPECT_FALSE(adjustment_seconds(none, 10));
}

TEST(StageHistory, AnOddRunCountsForNothing) {
  const std::vector<StageRun> two{StageRun{10, 50}, {10, 1}};
  EXPECT_DOUBLE_EQ(seconds_by(two, 10), 1);
  const std::vector<StageRun> three{StageRun{10, 1}, {10, 50}, {10, 1.1}};
  EXPECT_DOUBLE_EQ(seconds_by(three, 10), 1.1);
}

TEST(BesideSeconds, WeightsLoadWhileFramesAreDecoded) {
  BesideSeconds beside{{{"frames", 2}, {"weights", 5}, {"write", 1}}, true};
  EXPECT_DOUBLE_EQ(beside.total(), 6);
  NetworkPlan network;
  network.seconds = {{"aggregator", 3, 0, 3}};
  EXPECT_DOUBLE_EQ(run_seconds(network, beside).value(), 9);
  network.seconds.clear();
  EXPECT_FALSE(run_seconds(network, beside));
  network.seconds = {{"aggregator", 3, 0, 3}};
  beside.all = false;
  EXPECT_FALSE(run_seconds(network, beside));
}

Options valid() {
  Options options;
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
  options.device = "cpu";
  options.out = (fs::temp_directory_path() / "vggt_stage_work/").string();
  return options;
}

std::vector<StageWork> works_of(const Options& options, int64_t frames = 4) {
  const RunPlan plan = plan_run(options);
  MemoryRequest request = plan.memory;
  request.frames = frames;
  request.height = 28;
  request.width = 42;
  return stage_works(plan, request, {"jpg", 1000.0 * static_cast<double>(frames)});
}

std::vector<std::string> names_of(const std::vector<StageWork>& works) {
  std::vector<std::string> names;
  for (const StageWork& work : works) names.push_back(work.stage);
  return names;
}

TEST(StageWork, NamesTheStagesOfARun) {
  using Names = std::vector<std::string>;
  Options options = valid();
  EXPECT_EQ(names_of(works_of(options)),
            (Names{"frames", "weights", "scene", "adjustment", "refinement", "filters", "health", "write"}));
  options.refine_depth = "off";
  EXPECT_EQ(names_of(works_of(options)),
            (Names{"frames", "weights", "scene", "adjustment", "filters", "health", "write"}));
  EXPECT_EQ(names_of(works_of(valid(), 1)),
            (Names{"frames", "weights", "scene", "filters", "health", "write"}));
  options.report = true;
  options.exports = {"glb"};
  options.bundle_adjust = "off";
  EXPECT_EQ(names_of(works_of(options)),
            (Names{"frames", "weights", "scene", "filters", "health", "write", "export", "page"}));
  options = valid();
  options.heads = {"camera"};
  EXPECT_EQ(names_of(works_of(options)), (Names{"frames", "weights", "scene", "health", "write"}));
}

TEST(StageWork, GrowsWithTheFrames) {
  const std::vector<StageWork> few = works_of(valid()), many = works_of(valid(), 8);
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_GT(few[i].units, 0) << few[i].stage;
    if (few[i].stage == "weights") {
      EXPECT_EQ(many[i].units, few[i].units);
    } else if (few[i].stage == "adjustment") {
      EXPECT_GT(many[i].units / few[i].units, 4);  // pairs of frames
    } else {
      EXPECT_DOUBLE_EQ(many[i].units / few[i].units, 2) << few[i].stage;
    }
  }
  Options options = valid();
  options.conf_percentile = 100;  // no points are left
  for (const StageWork& work : works_of(options)) EXPECT_GT(work.units, 0) << work.stage;
  EXPECT_GT(adjustment_work(4, 1e8), 1.5 * adjustment_work(4, 1e6));
}

TEST(StageWork, TellsRunsApartThatCannotBeCompared) {
  const auto kind = [](const std::string& stage, const Options& options) {
    const std::vector<StageWork> works = works_of(options);
    return std::ranges::find(works, stage, &StageWork::stage)->kind;
  };
  const auto changes = [&](const std::string& stage, auto change) {
    Options options = valid();
    change(options);
    return kind(stage, options) != kind(stage, valid());
  };
  EXPECT_TRUE(changes("frames", [](Options& o) { o.bundle_adjust = "off"; }));
  EXPECT_TRUE(changes("scene", [](Options& o) { o.consistent = 2; }));
  EXPECT_TRUE(changes("scene", [](Options& o) { o.points = "depth", o.conf_threshold = 2; }));
  EXPECT_TRUE(changes("filters", [](Options& o) { o.voxel = 0.1; }));
  Options fine = valid(), coarse = valid();  // which leave other shares of the points
  fine.voxel = 0.002;
  coarse.voxel = 0.01;
  EXPECT_NE(kind("filters", fine), kind("filters", coarse));
  EXPECT_NE(kind("write", fine), kind("write", coarse));
  EXPECT_TRUE(changes("write", [](Options& o) { o.picture = o.out + "p.png"; }));
  EXPECT_TRUE(changes("adjustment", [](Options& o) { o.camera = "simple-pinhole"; }));
  EXPECT_TRUE(changes("adjustment", [](Options& o) { o.intrinsics = "320,320,168,112"; }));
  EXPECT_TRUE(changes("adjustment", [](Options& o) { o.masks = VGGT_SOURCE_DIR "/examples/room"; }));
  const auto with_lens = [](const std::string& refine, const std::string& camera) {
    Options options = valid();
    options.intrinsics = "320,320,168,112";
    if (!refine.empty()) options.refine = {refine};
    if (!camera.empty()) options.camera = camera;
    return options;
  };
  EXPECT_NE(kind("adjustment", with_lens("", "")), kind("adjustment", with_lens("intrinsics", "")));
  EXPECT_FALSE(changes("weights", [](Options& o) { o.voxel = 0.1; }));
}

// Where no rates are known, runs of about as many frames of the size tell what the network takes.
TEST(StageHistory, ANetworkWithoutRatesIsPredictedByRunsOfItsSize) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_networks_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  const RunPlan plan = plan_run(valid());
  MemoryRequest request = plan.memory;
  const auto works = [&](int64_t frames, int64_t width = 42) {
    request.frames = frames;
    request.height = 28;
    request.width = width;
    return network_works(plan, request, {"patch_embed", "aggregator"});
  };
  const auto seconds = [&](const std::vector<StageWork>& of) {
    const BesideSeconds beside = predict_beside(plan, of, /*first=*/true);
    return beside.all ? beside.total() : -1;
  };
  EXPECT_EQ(seconds(works(20)), -1);
  keep_seconds(plan, works(20), {{"patch_embed", 1}, {"aggregator", 3}});
  EXPECT_NEAR(seconds(works(20)), 4, 1e-9);
  EXPECT_NEAR(seconds(works(16)), 3.2, 1e-9);
  EXPECT_NEAR(seconds(works(25)), 5, 1e-9);
  EXPECT_EQ(seconds(works(15)), -1);
  EXPECT_EQ(seconds(works(26)), -1);
  EXPECT_EQ(seconds(works(20, 56)), -1);
  forget_more_than_rates(rates_key(plan.model.config, plan.model.options));
  EXPECT_EQ(seconds(works(20)), -1);
  fs::remove_all(cache);
}

TEST(StageHistory, MoreThreadsDecodeFaster) {
  EXPECT_EQ(frames_by_threads(1), 1);
  EXPECT_EQ(frames_by_threads(2), 1);
  EXPECT_NEAR(frames_by_threads(16), 0.26, 0.01);
  EXPECT_EQ(frames_by_threads(128), frames_by_threads(16));
}

// What a process does once it does under a budget too, whose first run is predicted by those without one.
TEST(StageHistory, ARunUnderABudgetIsFirstPredictedByThoseWithout) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_stage_history_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  const RunPlan unlimited = plan_run(valid());
  Options options = valid();
  options.host_memory = "2GB";
  const RunPlan limited = plan_run(options);
  const auto predicted = [](const RunPlan& plan) {
    std::vector<StageSeconds> stages = {{"aggregator", 4, 0, 4}};
    add_more_than_rates(plan, plan.memory, stages);
    return stages[0].seconds;
  };
  const auto took = [](const RunPlan& plan, double seconds) {
    keep_more_than_rates(plan, plan.memory, {{"aggregator", 2, 0, 2}}, {{"aggregator", seconds}});
  };
  EXPECT_DOUBLE_EQ(predicted(limited), 4);
  took(unlimited, 3);
  EXPECT_DOUBLE_EQ(predicted(unlimited), 6);
  EXPECT_DOUBLE_EQ(predicted(limited), 6);
  took(limited, 2.5);
  EXPECT_DOUBLE_EQ(predicted(limited), 5);  // its own count from then on
  EXPECT_DOUBLE_EQ(predicted(unlimited), 6);
  // What was learned beside other rates means nothing beside new ones.
  forget_more_than_rates("other rates");
  EXPECT_DOUBLE_EQ(predicted(unlimited), 6);
  forget_more_than_rates(rates_key(unlimited.model.config, unlimited.model.options));
  EXPECT_DOUBLE_EQ(predicted(unlimited), 4);
  EXPECT_DOUBLE_EQ(predicted(limited), 4);
  fs::remove_all(cache);
}

TEST(StageHistory, SoAreTheOtherStagesOfARunUnderABudget) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_other_stages_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  Options options = valid();
  const RunPlan unlimited = plan_run(options);
  options.host_memory = "2GB";
  const RunPlan limited = plan_run(options);
  const std::vector<StageWork> works = {{"adjustment", "matches", 1e6}, {"write", "points", 1e6}};
  const auto seconds = [&](const RunPlan& plan) { return predict_beside(plan, works, false).stages; };
  EXPECT_TRUE(seconds(limited).empty());
  keep_seconds(unlimited, works, {{"adjustment", 3}, {"write", 2}});
  EXPECT_EQ(seconds(limited), seconds(unlimited));
  ASSERT_EQ(seconds(limited).size(), 2U);
  keep_seconds(limited, works, {{"adjustment", 6}, {"write", 4}});
  EXPECT_NEAR(seconds(limited)[1].second, 4, 1e-9);
  EXPECT_NEAR(seconds(unlimited)[1].second, 2, 1e-9);
  fs::remove_all(cache);
}

/// Of six frames of a source that is known again by the word.
std::pair<RunPlan, std::vector<StageWork>> works_of_source(const Options& options, const std::string& word) {
  const RunPlan plan = plan_run(options);
  MemoryRequest request = plan.memory;
  request.frames = 6;
  request.height = 28;
  request.width = 42;
  return {plan, stage_works(plan, request, {"jpg", 1e7, 1e7, word})};
}

// Only frames of the same source tell how long an adjustment takes; not what is made of its result.
TEST(StageHistory, AnAdjustmentIsPredictedByItsSourceAlone) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_sources_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  const auto adjustment = [&](const Options& options, const std::string& word) {
    const auto [plan, works] = works_of_source(options, word);
    const BesideSeconds beside = predict_beside(plan, works, /*first=*/true);
    const bool is_unknown = std::ranges::count(beside.unknown, "adjustment") == 1;
    const auto found = std::ranges::find(beside.stages, "adjustment", &std::pair<std::string, double>::first);
    EXPECT_EQ(is_unknown, found == beside.stages.end());
    EXPECT_EQ(beside.all, beside.unknown.empty());
    return is_unknown ? std::nullopt : std::optional(found->second);
  };
  const auto took = [&](const std::string& word, double seconds) {
    const auto [plan, works] = works_of_source(valid(), word);
    keep_seconds(plan, works, {{"adjustment", seconds}});
  };
  EXPECT_FALSE(adjustment(valid(), "kitchen"));
  took("kitchen", .7);
  ASSERT_TRUE(adjustment(valid(), "kitchen"));
  EXPECT_NEAR(*adjustment(valid(), "kitchen"), .7, 1e-9);
  EXPECT_FALSE(adjustment(valid(), "wall"));
  took("", 1);  // frames that cannot be known again teach nothing
  EXPECT_FALSE(adjustment(valid(), ""));
  Options options = valid();
  options.max_points = 1000;
  options.conf_percentile = 80;
  EXPECT_TRUE(adjustment(options, "kitchen"));
  options.camera = "simple-pinhole";
  EXPECT_FALSE(adjustment(options, "kitchen"));
  fs::remove_all(cache);
}

TEST(StageHistory, LikelyIsTheMiddleOfWhatOthersTook) {
  const std::vector<StageRun> others{{10, 1}, {20, 6}, {40, 8}, {1000, 9000}};
  const LikelySeconds likely = likely_seconds(others, 20);  // rates of .1, .3 and .2
  EXPECT_DOUBLE_EQ(likely.middle, 4);
  EXPECT_DOUBLE_EQ(likely.least, 2);
  EXPECT_DOUBLE_EQ(likely.most, 6);
  const LikelySeconds far = likely_seconds(others, 6000);
  EXPECT_DOUBLE_EQ(far.middle, 54000);
  EXPECT_DOUBLE_EQ(far.least, far.most);
}

// It is no prediction: the stage stays unknown.
TEST(StageHistory, OtherSourcesTellWhatAnAdjustmentIsLikelyToTake) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_likely_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  const auto works = [](const Options& options, const std::string& word) {
    auto [plan, all] = works_of_source(options, word);
    std::erase_if(all, [](const StageWork& work) { return work.stage != "adjustment"; });
    return std::pair(plan, all);
  };
  const auto likely = [&](const Options& options, const std::string& word) {
    const auto [plan, all] = works(options, word);
    const BesideSeconds beside = predict_beside(plan, all, /*first=*/false);
    const std::optional<LikelySeconds> total = beside.likely_total();
    EXPECT_EQ(total.has_value(), !beside.likely.empty());
    if (!total) return LikelySeconds();
    EXPECT_EQ(beside.unknown, std::vector<std::string>{"adjustment"});
    EXPECT_EQ(beside.likely[0].first, "adjustment");
    EXPECT_EQ(total->middle, beside.likely[0].second.middle);  // nothing else is known
    return beside.likely[0].second;
  };
  const auto took = [&](const Options& options, const std::string& word, double seconds) {
    const auto [plan, all] = works(options, word);
    keep_seconds(plan, all, {{"adjustment", seconds}});
  };
  Options options = valid(), limited = valid(), pinhole = valid(), silent = valid();
  options.threads = 2;
  limited.threads = 2;
  limited.host_memory = "2GB";
  pinhole.camera = "simple-pinhole";
  silent.no_autotune = true;
  const StageWork first = works(options, "a").second.at(0);
  EXPECT_DOUBLE_EQ(likely(options, "a").least, 4e-6 * first.units);
  EXPECT_DOUBLE_EQ(likely(options, "a").middle, 6.5e-6 * first.units);
  EXPECT_DOUBLE_EQ(likely(options, "a").most, 1.1e-5 * first.units);
  EXPECT_EQ(likely(pinhole, "a").most, 0);  // others take another time
  EXPECT_EQ(likely(silent, "a").most, 0);
  took(options, "a", 3);
  EXPECT_EQ(likely(options, "a").most, 0);  // it is known
  EXPECT_DOUBLE_EQ(likely(options, "b").most, 3);
  EXPECT_DOUBLE_EQ(likely(options, "b").least, 4e-6 * first.units);
  took(options, "b", 5);
  took(options, "c", 9);
  for (const Options& some : {options, limited}) {
    EXPECT_DOUBLE_EQ(likely(some, "d").middle, 5);
    EXPECT_DOUBLE_EQ(likely(some, "d").least, 3);
    EXPECT_DOUBLE_EQ(likely(some, "").most, 9);  // such as images in memory
  }
  fs::remove_all(cache);
}

TEST(FrameSource, IsKnownAgainByItsFirstFile) {
  const fs::path folder = fs::temp_directory_path() / ("vggt_words_" + std::to_string(::getpid()));
  fs::create_directories(folder / "copy");
  const auto write = [](const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::string image = std::string(9000, 'a') + "b" + std::string(9000, 'a');
  write(folder / "0.jpg", image);
  write(folder / "copy/first.jpg", image);
  write(folder / "1.jpg", std::string(image.size(), 'a'));
  write(folder / "list.txt", "1.jpg");
  write(folder / "walk.mp4", image);
  const auto word = [](const fs::path& source, const std::string& file) {
    FrameSet frames;
    frames.frames.resize(1);
    frames.frames[0].file = file;
    FrameOptions options;
    options.source = source;
    return source_of(options, frames).word;
  };
  const std::string first = word(folder, "0.jpg");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(word(folder / "copy", "first.jpg"), first);
  EXPECT_EQ(word(folder / "walk.mp4", "walk.mp4#7"), first);
  EXPECT_EQ(word("", (folder / "0.jpg").string()), first);
  EXPECT_NE(word(folder, "1.jpg"), first);
  EXPECT_EQ(word(folder / "list.txt", "1.jpg"), word(folder, "1.jpg"));
  EXPECT_EQ(word(folder, "2.jpg"), "");
  fs::remove_all(folder);
}

// A GPU's plans of attention hold for about as many frames of the same size.
TEST(StageHistory, KnowsTheSizesThatThereWereRunsOf) {
  const fs::path cache = fs::temp_directory_path() / ("vggt_sizes_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const test::Variable variable("XDG_CACHE_HOME", cache.c_str());
  const RunPlan plan = plan_run(valid());
  MemoryRequest request = plan.memory;
  request.frames = 33;
  request.height = 28;
  request.width = 42;
  const auto with = [&](auto change) {
    MemoryRequest other = request;
    change(other);
    return has_size(plan, other);
  };
  EXPECT_FALSE(has_size(plan, request));
  keep_size(plan, request);
  EXPECT_TRUE(has_size(plan, request));
  EXPECT_TRUE(with([](MemoryRequest& r) { r.frames = 34; }));
  EXPECT_FALSE(with([](MemoryRequest& r) { r.frames = 48; }));
  EXPECT_FALSE(with([](MemoryRequest& r) { r.width = 56; }));
  EXPECT_FALSE(
      with([](MemoryRequest& r) { r.merge = r.merge ? std::nullopt : std::optional(MergeOptions()); }));
  Options options = valid();
  options.heads = {"camera"};
  EXPECT_FALSE(has_size(plan_run(options), request));  // other heads
  options = valid();
  options.no_autotune = true;
  const RunPlan silent = plan_run(options);
  request.frames = 48;
  keep_size(silent, request);
  EXPECT_FALSE(has_size(plan, request));
  fs::remove_all(cache);
}

// Of many frames fewer anchors are looked for, each of which takes longer.
TEST(StageWork, ManyFramesTakeMoreOfAnAdjustmentThanTheirAnchors) {
  EXPECT_GT(adjustment_work(65, 0), adjustment_work(64, 0) / 2);
  EXPECT_LT(adjustment_work(65, 0), adjustment_work(64, 0));
}

TEST(FrameSource, CountsWhatIsDecoded) {
  FrameSet frames;
  const auto add = [&](const std::string& file) {
    Frame frame;
    frame.file = file;
    frame.original_width = 20;
    frame.original_height = 10;
    frames.frames.push_back(frame);
  };
  const auto expect = [&](const FrameOptions& options, const std::string& kind, double pixels) {
    const FrameSource source = source_of(options, frames);
    EXPECT_EQ(source.kind, kind);
    EXPECT_EQ(source.pixels, pixels);
  };
  FrameOptions options;
  options.source = "walk.MP4";
  add("walk.MP4#0");
  add("walk.MP4#29");
  expect(options, "mp4", 30 * 200);
  options.max_frames = 2;  // the frames are counted first
  expect(options, "mp4", 2 * 30 * 200);
  EXPECT_EQ(source_of(options, frames).gray, 0);
  options.gray_side = 40;
  EXPECT_EQ(source_of(options, frames).gray, 400);
  options.gray_side = 10;
  EXPECT_EQ(source_of(options, frames).gray, 100);
  frames.frames.clear();
  options.source = "walk.safetensors";
  add("walk.safetensors#7");
  expect(options, "safetensors", 200);
  frames.frames.clear();
  options.source = "walk";
  add("a/b.c/#1.JPEG");
  add("2.png");
  expect(options, "jpg", 400);
  add("3.png");
  expect(options, "png", 600);
  frames.frames.pop_back();
  options.source.clear();
  options.images.resize(2);
  expect(options, "memory", 400);
  frames.frames.clear();
  options = {};
  options.paths = {"a"};
  add("a");
  expect(options, "other", 200);
  frames.frames.front().file = "a.j\xffg";  // which JSON cannot hold
  expect(options, "other", 200);
}

}  // namespace
}  // namespace vggt
