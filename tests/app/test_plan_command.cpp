// `vggt-recon plan`, and what runs say of their predicted seconds.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

class PlanTest : public CliTest {
 protected:
  /// With a cache of the test's own.
  Outcome plan(const std::string& arguments) {
    return run("plan --device cpu --weights '" + kNano + "' " + arguments,
               "XDG_CACHE_HOME='" + path("cache") + "'");
  }
};

TEST_F(PlanTest, PlansFramesThatNobodyHas) {
  const Outcome outcome = plan("--frame-count 10000 --frame-size 518x392 --merge off --json plan.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* words : {"10000 frames of 518x392", "global_block", "depth_head", "exact:", "merged:"})
    EXPECT_NE(outcome.out.find(words), std::string::npos) << outcome.out;
  const json all = parse_strictly(path("plan.json"));
  EXPECT_EQ(all["plan"]["frames"], 10000);
  EXPECT_EQ(all["plan"]["merged"], false);
  EXPECT_EQ(all["other"]["merged"], true);
  double sum = 0;
  for (const auto& [stage, seconds] : all["plan"]["seconds"].items()) sum += seconds["seconds"].get<double>();
  EXPECT_GT(sum, all["plan"]["seconds"]["aggregator"]["seconds"].get<double>());
  EXPECT_NEAR(all["plan"]["total_seconds"], sum, 1e-6 * sum);
  EXPECT_NE(outcome.out.find("\nprocess:   "), std::string::npos) << outcome.out;
  // The network's tensors in the trunk, which come before the maps, and the frames; and the program itself.
  const double pixels = 10000. * 518 * 392;
  EXPECT_GT(all["process_host_bytes"], all["plan"]["device_bytes"].get<double>() + 3 * pixels);
  EXPECT_TRUE(fs::exists(path("cache/vggt-recon/rates.json")));
}

TEST_F(PlanTest, TakesTheCommandLineOfARun) {
  const Outcome outcome = plan("--frames frames --out s.ply --merge on --voxel 0.1 --no-autotune");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("3 frames of 56x42"), std::string::npos) << outcome.out;
  EXPECT_FALSE(fs::exists(path("s.ply")));
}

TEST_F(PlanTest, ReplacesNoFrame) {
  const std::string old = text_of(path("frames/1.png"));
  const Outcome outcome = plan("--frames frames --no-autotune --json frames/1.png");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("frames/1.png: would replace an input"), std::string::npos) << outcome.err;
  EXPECT_EQ(text_of(path("frames/1.png")), old);
}

TEST_F(PlanTest, TheOtherPlanMergesAsTheOptionsSay) {
  const auto attended = [&](const std::string& more) {
    const Outcome outcome = plan(
        "--frame-count 2000 --frame-size 518x392 --heads camera --merge off --no-autotune --json plan.json " +
        more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_strictly(path("plan.json"))["other"]["memory"].dump();
  };
  EXPECT_NE(attended("--merge-ratio 0.1"), attended("--merge-ratio 0.9"));
}

TEST_F(PlanTest, MeasuresNothingWhereThatIsNotWanted) {
  const Outcome outcome = plan("--no-autotune --frame-count 4 --frame-size 56x42 --json plan.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(fs::exists(path("cache")));
  EXPECT_TRUE(parse_strictly(path("plan.json"))["plan"]["total_seconds"].is_null());
}

TEST_F(PlanTest, EndsAsARunWouldWhereNothingFits) {
  const Outcome outcome =
      plan("--no-autotune --frame-count 5000 --frame-size 518x392 --host-memory 900MB --json plan.json");
  expect_refusal(outcome, "5000 frames need more of the host's memory");
  EXPECT_NE(outcome.err.find("MB would do"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("does not fit"), std::string::npos) << outcome.out;
  EXPECT_EQ(parse_strictly(path("plan.json"))["plan"]["fits"], false);
  expect_refusal(plan("--no-autotune --frame-count 5 --frame-size 518x392 --scratch nowhere"), "scratch: ");
}

// Frames and maps for which the limit has no room lie in files.
TEST_F(PlanTest, TheProcessKeepsToHostMemory) {
  const Outcome outcome = plan(
      "--no-autotune --frame-count 5000 --frame-size 518x392 --host-memory 6GB --scratch . --json plan.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LE(parse_strictly(path("plan.json"))["process_host_bytes"], 6e9);
}

TEST_F(PlanTest, WarnsOfMoreMemoryThanIsFree) {
  const Outcome outcome = plan("--no-autotune --frame-count 10000000 --frame-size 518x392");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("GiB more of the host's memory, and "), std::string::npos) << outcome.err;
  EXPECT_EQ(plan("--no-autotune --frame-count 4 --frame-size 56x42").err.find("are free"), std::string::npos);
}

TEST_F(PlanTest, WarnsWhereTheAdjustmentMayHaveNoRoom) {
  const auto warns = [&](int frames, const std::string& adjusts) {
    const Outcome outcome =
        plan("--no-autotune --heads camera,depth --frame-size 126x70 --scratch . --frame-count " +
             std::to_string(frames) + " --host-memory 900MB --bundle-adjust " + adjusts);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err.find("--host-memory may have no room for the adjustment") != std::string::npos;
  };
  EXPECT_TRUE(warns(1500, "on"));
  EXPECT_FALSE(warns(15, "on"));
  EXPECT_FALSE(warns(1500, "off"));
}

// A match is looked for in cells of some pixels: small images have few.
TEST_F(PlanTest, SmallImagesTakeLessToAdjust) {
  constexpr int kFrames = 60;
  const auto taken = [&](int width, int height) {
    const std::string folder = std::to_string(width);
    fs::create_directory(dir_ / folder);
    for (int i = 0; i < kFrames; ++i) make_image(folder + "/" + std::to_string(i) + ".png", width, height, i);
    const auto bytes = [&](const std::string& adjusts) {
      const Outcome outcome =
          plan("--no-autotune --heads camera,depth --json plan.json --width 126 --frames " + folder +
               " --bundle-adjust " + adjusts);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return parse_strictly(path("plan.json"))["process_host_bytes"].get<double>();
    };
    return bytes("on") - bytes("off");
  };
  const double of_small = taken(126, 70), of_usual = taken(504, 280);
  EXPECT_GT(of_small, 5e6);
  EXPECT_GT(of_usual, of_small + 40e6);
}

TEST_F(PlanTest, RefusesWhatItCannotPlan) {
  expect_refusal(plan("--frame-count 4"), "--frame-size");
  expect_refusal(plan("--frame-size 56x42"), "--frame-count");
  expect_refusal(plan("--frame-count 4 --frame-size 56x42 --frames frames"), "not both");
  expect_refusal(plan("--frame-count 4 --frame-size 57x42"), "multiples of 14");
  expect_refusal(plan("--frame-count 0 --frame-size 56x42"), "frame-count");
  expect_refusal(plan("--frame-count 4 --frame-size 56"), "frame-size");
  expect_refusal(plan("--frame-cuont 4"), "--frame-count");
  expect_refusal(plan(""), "--frames");
}

TEST_F(PlanTest, WarnsOfAScratchFolderWithLessRoomThanFilesTake) {
  const std::string many = "--no-autotune --frame-size 518x392 --host-memory 200GB --scratch . ";
  const Outcome outcome = plan("--frame-count 10000000 " + many);
  EXPECT_NE(outcome.err.find("warning: the run's files take "), std::string::npos) << outcome.err;
  EXPECT_EQ(plan("--frame-count 4 " + many).err.find("the network's files"), std::string::npos);
}

// Of small runs most is the program itself; tests/BENCHMARKS.md has larger ones.
TEST_F(PlanTest, RunsReportThePredictedPeakOfTheProcess) {
  ASSERT_EQ(reconstruct("--frames frames --out a.ply").code, 0);
  const json report = parse_strictly(path("a.report.json"));
  const double predicted = report["predicted_peak_host_bytes"], measured = report["peak_host_bytes"];
  EXPECT_GT(predicted, 0.7 * measured);
  EXPECT_LT(predicted, 1.4 * measured);
}

TEST_F(PlanTest, RunsReportThePredictedPeakOfExportsOfLargePhotographs) {
  fs::create_directory(dir_ / "photographs");
  for (int i = 0; i < 4; ++i) make_image("photographs/" + std::to_string(i) + ".jpg", 6000, 4000, i);
  const auto peaks = [&](const std::string& more) {
    fs::remove_all(path("o"));
    const Outcome outcome = reconstruct("--frames photographs --threads 4 --out o/ " + more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json report = parse_strictly(path("o/scene.report.json"));
    return std::pair<double, double>(report["predicted_peak_host_bytes"], report["peak_host_bytes"]);
  };
  const auto [plain_predicted, plain] = peaks("");
  const auto [predicted, measured] = peaks("--export colmap --export-images undistort --camera radial");
  EXPECT_GT(measured, plain + 100e6);
  EXPECT_NEAR(predicted, measured, .15 * measured);
  EXPECT_GT(predicted, plain_predicted + 100e6);
}

// What a decoder holds beside the pixels, and what the allocator keeps of blocks below 32 MB.
TEST_F(PlanTest, RunsReportThePredictedPeakOfImagesOfAnyFormat) {
  for (const auto& [format, width, height] :
       {std::tuple("png", 4000, 2667), {"webp", 3600, 2400}, {"tiff", 4800, 3200}, {"jpg", 4000, 2667}}) {
    SCOPED_TRACE(format);
    const std::string folder = std::string("of_") + format;
    fs::create_directory(dir_ / folder);
    for (int i = 0; i < 6; ++i) make_image(folder + "/" + std::to_string(i) + "." + format, width, height, i);
    const Outcome outcome = reconstruct("--threads 2 --out o/ --frames " + folder);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json report = parse_strictly(path("o/scene.report.json"));
    const double measured = report["peak_host_bytes"];
    EXPECT_NEAR(report["predicted_peak_host_bytes"], measured, .12 * measured);
    const Outcome planned = plan("--no-autotune --threads 2 --json plan.json --frames " + folder);
    ASSERT_EQ(planned.code, 0) << planned.err;
    const double of_plan = parse_strictly(path("plan.json"))["process_host_bytes"];
    EXPECT_NEAR(of_plan, report["predicted_peak_host_bytes"], .06 * of_plan);
  }
}

TEST_F(PlanTest, RunsReportPredictedSeconds) {
  const std::string cache = "XDG_CACHE_HOME='" + path("cache") + "'";
  // A short run measures nothing, and predicts where something else has measured.
  ASSERT_EQ(reconstruct("--frames frames --out a.ply", cache).code, 0);
  EXPECT_TRUE(parse_strictly(path("a.report.json"))["predicted_seconds"].empty());
  const Outcome dry = reconstruct("--frames frames --out b.ply --dry-run", cache);
  EXPECT_NE(dry.out.find("global_block"), std::string::npos) << dry.out;
  ASSERT_EQ(reconstruct("--frames frames --out a.ply", cache).code, 0);
  const json report = parse_strictly(path("a.report.json"));
  for (const char* stage : {"patch_embed", "aggregator", "camera_head", "depth_head"}) {
    EXPECT_GT(report["predicted_seconds"][stage], 0) << stage;
    EXPECT_TRUE(report["seconds"].contains(stage)) << stage;
  }
  fs::remove_all(path("cache"));
  ASSERT_EQ(reconstruct("--frames frames --out c.ply --no-autotune", cache).code, 0);
  EXPECT_TRUE(parse_strictly(path("c.report.json"))["predicted_seconds"].empty());
  EXPECT_FALSE(fs::exists(path("cache")));
}

/// A room of four small frames, and a cache of the test's own.
class LearnedSecondsTest : public CliTest {
 protected:
  LearnedSecondsTest() {
    const fs::path root = VGGT_SOURCE_DIR;
    fs::create_directory(dir_ / "room");
    for (const char* name : {"00.jpg", "02.jpg", "04.jpg", "06.jpg"})
      fs::copy_file(root / "examples/room" / name, dir_ / "room" / name);
    weights_ = (root / "weights/vggt-small.ts").string();
  }
  Outcome in_room(const std::string& command, const std::string& more) {
    return run(command + " --device cpu --weights '" + weights_ + "' --frames room --width 112 " + more,
               "XDG_CACHE_HOME='" + path("cache") + "'");
  }
  /// Runs, and gives the report.
  json report_of(const std::string& more = "") {
    const Outcome outcome = in_room("", "--out out/ " + more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_strictly(path("out/scene.report.json"));
  }
  std::string learned() const { return text_of(path("cache/vggt-recon/stages.json")); }

  std::string weights_;
};

// Wide limits: the machine may be busy in one run and idle in the next.
TEST_F(LearnedSecondsTest, ARunPredictsByEarlierOnes) {
  constexpr double kBusy = 50;
  const Outcome fresh = in_room("plan", "--json plan.json");
  ASSERT_EQ(fresh.code, 0) << fresh.err;
  // Small stages are those of another machine, and nobody knows what an adjustment and a refinement take.
  EXPECT_NE(fresh.out.find(" s (as on another machine: frames, weights, "), std::string::npos) << fresh.out;
  EXPECT_EQ(parse_strictly(path("plan.json"))["beside_guessed"],
            json({"frames", "weights", "scene", "filters", "health", "write"}));
  EXPECT_NE(fresh.out.find(" (not known until it has run once: adjustment, refinement)\n"), std::string::npos)
      << fresh.out;
  EXPECT_EQ(parse_strictly(path("plan.json"))["beside_unknown"], json({"adjustment", "refinement"}));
  EXPECT_TRUE(parse_strictly(path("plan.json"))["plan"]["run_seconds"].is_null());
  EXPECT_FALSE(fs::exists(path("cache/vggt-recon/stages.json")));
  // What is likely they are told.
  EXPECT_NE(fresh.out.find("\nlikely:    adjustment "), std::string::npos) << fresh.out;
  EXPECT_NE(fresh.out.find("; the run exact "), std::string::npos) << fresh.out;
  const json plan = parse_strictly(path("plan.json"));
  double likely = plan["plan"]["total_seconds"].get<double>();
  for (const auto& [stage, seconds] : plan["beside_seconds"].items()) likely += seconds.get<double>();
  likely -= std::min(plan["beside_seconds"]["frames"], plan["beside_seconds"]["weights"]).get<double>();
  for (const char* stage : {"adjustment", "refinement"})
    likely += plan["beside_likely"][stage]["middle"].get<double>();
  EXPECT_NEAR(plan["plan"]["likely_run_seconds"]["middle"], likely, 1e-6);
  const json one = report_of(), &first = one["predicted_seconds"];
  for (const char* stage : {"adjustment", "refinement", "total"}) {
    const json seconds = one["likely_seconds"][stage];
    EXPECT_LT(seconds["middle"], kBusy * std::max(0.01, one["seconds"][stage].get<double>())) << stage;
    EXPECT_GT(kBusy * seconds["middle"].get<double>(), one["seconds"][stage].get<double>() - 0.1) << stage;
    EXPECT_LE(seconds["least"], seconds["middle"]) << stage;
    EXPECT_LE(seconds["middle"], seconds["most"]) << stage;
  }
  for (const char* stage : {"frames", "weights", "aggregator", "scene", "health", "write"})
    EXPECT_GT(first[stage], 0) << stage;
  for (const char* stage : {"adjustment", "refinement", "total"})
    EXPECT_FALSE(first.contains(stage)) << stage;

  const json report = report_of(), &predicted = report["predicted_seconds"], &measured = report["seconds"];
  for (const char* stage : {"frames", "weights", "scene", "adjustment", "health", "write", "total"}) {
    ASSERT_TRUE(predicted.contains(stage)) << stage << predicted;
    EXPECT_GT(predicted[stage], 0) << stage;
    EXPECT_LT(predicted[stage], kBusy * std::max(0.01, measured[stage].get<double>())) << stage;
    EXPECT_GT(kBusy * predicted[stage].get<double>(), measured[stage].get<double>() - 0.1) << stage;
  }
  for (const auto& [stage, seconds] : measured.items()) EXPECT_TRUE(predicted.contains(stage)) << stage;

  // What the network took more or less than by its rates is added to them: of two runs the faster.
  const json third = report_of()["predicted_seconds"];
  for (const char* stage : {"patch_embed", "aggregator", "camera_head", "depth_head"}) {
    EXPECT_NE(learned().find(std::string("; ") + stage + ": "), std::string::npos) << stage;
    const double faster = std::min(one["seconds"][stage], measured[stage]).get<double>();
    EXPECT_NEAR(third[stage], faster, 1e-3 * faster + 1e-6) << stage;
  }

  for (const Outcome& plan : {in_room("plan", "--json plan.json"), in_room("", "--out out/ --dry-run")}) {
    EXPECT_EQ(plan.out.find("another machine"), std::string::npos) << plan.out;
    EXPECT_NE(plan.out.find("\nbeside:    frames "), std::string::npos) << plan.out;
    EXPECT_NE(plan.out.find("\nthe run:   exact "), std::string::npos) << plan.out;
    EXPECT_EQ(plan.out.find("likely"), std::string::npos) << plan.out;
  }
  const json plans = parse_strictly(path("plan.json"));
  double beside = 0;
  for (const auto& [stage, seconds] : plans["beside_seconds"].items()) beside += seconds.get<double>();
  beside -= std::min(plans["beside_seconds"]["frames"], plans["beside_seconds"]["weights"]).get<double>();
  for (const char* way : {"plan", "other"})
    EXPECT_NEAR(plans[way]["run_seconds"], plans[way]["total_seconds"].get<double>() + beside, 1e-6) << way;
  // Nothing is predicted of exports; a sum would leave them out.
  const Outcome exported = in_room("plan", "--export kitti --json plan.json");
  EXPECT_NE(exported.out.find(" (not predicted: exports)\n"), std::string::npos) << exported.out;
  EXPECT_EQ(exported.out.find("\nthe run: "), std::string::npos) << exported.out;
  EXPECT_EQ(parse_strictly(path("plan.json"))["beside_left_out"], json({"exports"}));
  EXPECT_TRUE(parse_strictly(path("plan.json"))["plan"]["run_seconds"].is_null());
  // What was never run is not known.
  const json coarse = report_of("--voxel 0.1")["predicted_seconds"];
  EXPECT_FALSE(coarse.contains("total"));
  EXPECT_TRUE(coarse.contains("adjustment"));
}

// How long an adjustment takes is the scene's own.
TEST_F(LearnedSecondsTest, RunsOfOtherFramesDoNotPredictAnAdjustment) {
  ASSERT_EQ(in_room("plan", "").code, 0);
  report_of();
  fs::copy_file(fs::path(VGGT_SOURCE_DIR) / "examples/room/01.jpg", path("room/00.jpg"),
                fs::copy_options::overwrite_existing);
  const json report = report_of(), &other = report["predicted_seconds"];
  EXPECT_TRUE(report["likely_seconds"].contains("adjustment"));
  EXPECT_TRUE(report["likely_seconds"].contains("total"));
  EXPECT_FALSE(report["likely_seconds"].contains("refinement"));
  EXPECT_TRUE(other.contains("frames"));
  EXPECT_FALSE(other.contains("adjustment"));
  EXPECT_FALSE(other.contains("total"));
  const json again = report_of("--max-points 500")["predicted_seconds"];
  EXPECT_TRUE(again.contains("adjustment"));
}

TEST_F(LearnedSecondsTest, NothingIsKeptWhereThatIsNotWanted) {
  report_of("--no-autotune");
  EXPECT_FALSE(fs::exists(path("cache")));
  report_of();
  const std::string one_run = learned();
  EXPECT_NE(one_run.find("\"units\""), std::string::npos) << one_run;
  EXPECT_TRUE(report_of("--no-autotune")["predicted_seconds"].empty());
  EXPECT_TRUE(report_of("--resume --scratch .")["predicted_seconds"].empty());
  // Scenes of a batch share a model, and the time of each other's stages.
  const Outcome batch =
      run("batch --scenes . --out results --device cpu --width 56 --weights '" + kNano + "'",
          "XDG_CACHE_HOME='" + path("cache") + "'");
  ASSERT_EQ(batch.code, 0) << batch.err;
  EXPECT_EQ(learned(), one_run);
}

TEST_F(LearnedSecondsTest, ADamagedFileIsReplaced) {
  report_of();
  write(path("cache/vggt-recon/stages.json"), learned().substr(0, 200));
  EXPECT_TRUE(report_of()["predicted_seconds"].empty());
  EXPECT_TRUE(json::accept(learned()));
  EXPECT_TRUE(report_of()["predicted_seconds"].contains("frames"));
  fs::remove_all(path("cache"));
  write(path("cache"), "not a folder");
  report_of();
}

}  // namespace
}  // namespace vggt::test
