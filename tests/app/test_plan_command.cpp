// `vggt-recon plan`, and what runs say of their predicted seconds.
#include <gtest/gtest.h>

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
  // The network's tensors, the frames and their maps; and the program itself.
  const double pixels = 10000. * 518 * 392;
  EXPECT_GT(all["process_host_bytes"], all["plan"]["device_bytes"].get<double>() + 11 * pixels);
  EXPECT_TRUE(fs::exists(path("cache/vggt-recon/rates.json")));
}

TEST_F(PlanTest, TakesTheCommandLineOfARun) {
  const Outcome outcome = plan("--frames frames --out s.ply --merge on --voxel 0.1 --no-autotune");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("3 frames of 56x42"), std::string::npos) << outcome.out;
  EXPECT_FALSE(fs::exists(path("s.ply")));
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
  expect_refusal(outcome, "5000 frames need at least");
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
  EXPECT_NE(outcome.err.find("GiB of the host's memory, and "), std::string::npos) << outcome.err;
  EXPECT_EQ(plan("--no-autotune --frame-count 4 --frame-size 56x42").err.find("are free"), std::string::npos);
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
  EXPECT_NE(outcome.err.find("warning: the network's files take "), std::string::npos) << outcome.err;
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

}  // namespace
}  // namespace vggt::test
