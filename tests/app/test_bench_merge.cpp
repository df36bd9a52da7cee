// `vggt-recon bench merge`: what merged attention changes on a person's own frames.
#include <gtest/gtest.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

const std::string kBench = "bench merge --device cpu --weights '" + kNano + "' --frames frames ";

TEST_F(CliTest, MergedRunsDifferFromExactOnes) {
  const Outcome outcome = run(kBench + "--json m.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* words : {"3 frames of 56x42 pixels", "without bundle adjustment", "aggregator", "AUC@5"})
    EXPECT_NE(outcome.out.find(words), std::string::npos) << outcome.out;
  const json bench = parse_strictly(path("m.json"));
  EXPECT_EQ(bench["frames"], 3);
  EXPECT_EQ(bench["bundle_adjust"], false);
  EXPECT_TRUE(bench["nothing_merges"].is_null());
  const json& merge = bench["merge"];
  EXPECT_EQ(merge["ratio"], 0.9);
  EXPECT_EQ(merge["merging_blocks"], merge["blocks"]);
  EXPECT_LT(merge["most_rows"], merge["tokens"]);
  for (const char* side : {"exact", "merged"}) {
    for (const char* stage : {"patch_embed", "aggregator", "camera_head", "depth_head", "total"})
      EXPECT_GT(bench["seconds"][side][stage], 0) << side << ' ' << stage;
  }
  const json& cameras = bench["cameras"];
  EXPECT_GE(cameras["frames"], 2);  // random weights may leave one without
  for (const char* what : {"rotation_deg", "translation_direction_deg", "field_of_view_deg"}) {
    EXPECT_GT(cameras[what]["largest"], 0) << what;
    EXPECT_LE(cameras[what]["median"], cameras[what]["ninety_percent"]) << what;
    EXPECT_LE(cameras[what]["ninety_percent"], cameras[what]["largest"]) << what;
  }
  EXPECT_GT(cameras["position"], 0);
  EXPECT_LE(cameras["auc_5"], cameras["auc_30"]);
  const json& depth = bench["depth"];
  EXPECT_GT(depth["pixels"], 3 * 56 * 42 / 2 - 1);
  EXPECT_GT(depth["relative"]["largest"], 0);
  EXPECT_GT(depth["scale"], 0);
  EXPECT_LT(depth["confidence_correlation"], 1);
}

TEST_F(CliTest, WhatMergesNothingSaysSoAndDiffersInNothing) {
  for (const auto& [options, words] :
       {std::pair{"--merge-ratio 0", "--merge-ratio 0"}, {"--merge-start 1000", "--merge-start 1000"}}) {
    const Outcome outcome = run(kBench + options + " --json m.json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("nothing merges: " + std::string(words)), std::string::npos) << outcome.out;
    const json bench = parse_strictly(path("m.json"));
    EXPECT_EQ(bench["merge"]["most_rows"], bench["merge"]["tokens"]);
    EXPECT_NEAR(bench["cameras"]["rotation_deg"]["largest"].get<double>(), 0, 1e-6);
    EXPECT_NEAR(bench["cameras"]["position"].get<double>(), 0, 1e-9);
    EXPECT_EQ(bench["cameras"]["field_of_view_deg"]["largest"], 0);
    EXPECT_EQ(bench["cameras"]["auc_5"], 1);
    EXPECT_EQ(bench["depth"]["relative"]["largest"], 0);
    EXPECT_EQ(bench["depth"]["scale"], 1);
    EXPECT_EQ(bench["depth"]["exact_confidence"], bench["depth"]["merged_confidence"]);
  }
}

TEST_F(CliTest, WhatCannotBeComparedIsRefused) {
  expect_refusal(run(kBench + "--max-frames 1"), "2 frames are needed");
  expect_refusal(run("bench merge --device cpu"), "--frames is missing");
  expect_refusal(run("bench merge --device cpu --weights '" + kNano + "' --frames nowhere"), "nowhere");
  expect_refusal(run(kBench + "--merge-ratio 2"), "--merge-ratio: '2'");
  expect_refusal(run(kBench + "--merge-ration 1"), "did you mean '--merge-ratio'");
  expect_refusal(run(kBench + "--repeat 0"), "--repeat");
  expect_refusal(run(kBench + "--width 50"), "multiple of 14");
  expect_refusal(run(kBench + "--json nowhere/m.json"), "nowhere");
  expect_refusal(run(kBench + "--json frames"), "frames");
  expect_refusal(run("bench merge --frames --threads 1"), "--frames needs a value");
  expect_no_outputs();
}

TEST_F(CliTest, HelpOfBenchMergeNamesItsOptions) {
  const Outcome outcome = run("bench merge --help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* name : {"--frames", "--merge-start", "--merge-protect", "--merge-metric",
                           "--merge-refresh", "--repeat", "--json"})
    EXPECT_NE(outcome.out.find(name), std::string::npos) << name;
  EXPECT_EQ(outcome.out.find("--picture"), std::string::npos);
}

}  // namespace
}  // namespace vggt::test
