// `vggt-recon bench attention` and `bench stream`, on a CPU and at tiny lengths.
#include <gtest/gtest.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, AttentionIsTimedBesideLibTorchs) {
  const Outcome outcome = run(
      "bench attention --device cpu --lengths 40 129 --heads 2 --type fp32 bf16 --repeat 3 --json b.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("flash"), std::string::npos) << outcome.out;
  const json bench = parse_strictly(path("b.json"));
  EXPECT_TRUE(bench["scan"].empty());
  int ours = 0, peers = 0, automatic = 0;
  for (const json& row : bench["rows"]) {
    ASSERT_FALSE(row.contains("failure")) << row;
    EXPECT_EQ(row["group"], "lengths");
    EXPECT_EQ(row.contains("taken"), row["kernel"] == "auto") << row;
    if (row["kernel"] == "auto") ++automatic;
    EXPECT_EQ(row["rounds"], 3);
    EXPECT_GT(row["milliseconds"], 0);
    EXPECT_GT(row["tflops"], 0);
    EXPECT_GT(row["ratio"], 0);
    EXPECT_LT(row["error"], row["type"] == "fp32" ? 1e-6 : 1e-2);
    ++(row["ours"] == true ? ours : peers);
  }
  EXPECT_GE(ours, 8);  // an instruction set at least and `auto`, for two lengths and two types
  EXPECT_EQ(peers, 8);
  EXPECT_EQ(automatic, 4);
}

TEST_F(CliTest, PackedSequencesLeanAndScansHaveRows) {
  const Outcome outcome =
      run("bench attention --device cpu --groups packed lean scan --lengths 40 300 --heads 1 --repeat 1 "
          "--seconds 1 --json b.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json bench = parse_strictly(path("b.json"));
  for (const json& row : bench["rows"]) {
    EXPECT_EQ(row["group"], "packed");
    EXPECT_EQ(row["lengths"].size(), 8u);
    EXPECT_LT(row["error"], 1e-6);
  }
  EXPECT_GE(bench["rows"].size(), 3u);
  EXPECT_EQ(bench["scan"].size(), 6u);
  for (const json& row : bench["scan"]) EXPECT_GT(row["milliseconds"], 0);
  EXPECT_EQ(bench["lean"].size(), 6u);
  for (const json& row : bench["lean"]) {
    EXPECT_GT(row["milliseconds"], 0);
    EXPECT_EQ(row["overlap_efficiency"], 1);  // nothing is copied on a CPU
    EXPECT_LT(row["error"], 1e-6);
  }
}

TEST_F(CliTest, WhatDoesNotFitIntoMemoryIsARowOfItsOwn) {
  const Outcome outcome =
      run("bench attention --device cpu --groups scan --lengths 40 2000000000 --heads 4096 --repeat 1 "
          "--seconds 1 --json b.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json scan = parse_strictly(path("b.json"))["scan"];
  ASSERT_EQ(scan.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(scan[i].contains("failure"), i >= 3) << scan[i];
}

TEST_F(CliTest, EveryKernelOfTheCpuIsAsExactAsDocumented) {
  const Outcome outcome = run(
      "bench attention --device cpu --verify --heads 1 --lengths 60 520 130 --type fp32 bf16 --json v.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json verify = parse_strictly(path("v.json"))["verify"];
  EXPECT_TRUE(verify["exceeded"].empty());
  ASSERT_GE(verify["kernels"].size(), 2u);
  for (const json& kernel : verify["kernels"]) {
    for (const char* scenario : {"regular", "long", "stress"}) {
      const json& drift = kernel[scenario];
      for (const char* metric :
           {"max|dP|", "||dP||/||P||", "Jensen-Shannon", "argmax differs", "max|dY|", "||dY||/||Y||"}) {
        ASSERT_EQ(drift[metric].size(), 3u) << metric;
        EXPECT_LE(drift[metric][0], drift[metric][2]) << metric;
      }
      EXPECT_GT(drift["||dY||/||Y||"][0], 0);
      EXPECT_EQ(drift["structure"]["partitions"], 1);
    }
    EXPECT_EQ(kernel["error_by_length"]["errors"].size(), 3u);
  }
}

TEST_F(CliTest, StreamedAttentionIsTimedBesideResident) {
  const Outcome outcome =
      run("bench stream --device cpu --lengths 1 700 --heads 2 --dim 64 --fraction 2 --type fp32 bf16 "
          "--repeat 2 --json s.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("quorums"), std::string::npos) << outcome.out;
  const json rows = parse_strictly(path("s.json"))["rows"];
  ASSERT_EQ(rows.size(), 12u);
  for (const json& row : rows) {
    if (row["length"] == 1 && row.contains("failure")) continue;  // a token has too few bytes for any plan
    ASSERT_FALSE(row.contains("failure")) << row;
    EXPECT_GT(row["milliseconds"], 0);
    if (row["schedule"] == "resident") continue;
    EXPECT_LE(row["planned_bytes"], row["budget_bytes"]);
    EXPECT_GT(row["bytes_to_device"], 0);
    EXPECT_GT(row["ratio"], 0);
    EXPECT_EQ(row["retries"], 0);
    EXPECT_LT(row["error"], row["type"] == "fp32" ? 1e-6 : 1e-2);
  }
}

TEST_F(CliTest, StreamedSchedulesThatDoNotFitSaySo) {
  const Outcome outcome = run(
      "bench stream --device cpu --lengths 300 --heads 2 --fraction 0.01 --schedule blocked --json s.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json rows = parse_strictly(path("s.json"))["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_FALSE(rows[0].contains("failure"));
  EXPECT_NE(rows[1]["failure"].get<std::string>().find("hold no tile"), std::string::npos) << rows[1];
}

TEST_F(CliTest, BadOptionsOfBenchStreamAreRefused) {
  expect_refusal(run("bench stream --device cpu --lengths 1000000000"), "of the host's memory");
  expect_refusal(run("bench stream --lengths 0"), "--lengths");
  expect_refusal(run("bench stream --fraction 0"), "--fraction");
  expect_refusal(run("bench stream --schedule all"), "blocked, quorums, both");
  expect_refusal(run("bench stream --groups lean"), "--groups");
  expect_refusal(run("bench stream --device cpu --lengths 4 --json nowhere/b.json"), "nowhere");
}

TEST_F(CliTest, BadOptionsOfBenchAreRefused) {
  expect_refusal(run("bench attention --lengthes 4"), "did you mean '--lengths'");
  expect_refusal(run("bench attention --lengths 0"), "--lengths");
  expect_refusal(run("bench attention --lengths 12x"), "'12x'");
  expect_refusal(run("bench attention --lengths"), "--lengths");
  expect_refusal(run("bench attention --heads 0"), "--heads");
  expect_refusal(run("bench attention --dim nan"), "--dim");
  expect_refusal(run("bench attention --seconds nan"), "--seconds");
  expect_refusal(run("bench attention --type fp64"), "fp32, bf16, fp16");
  expect_refusal(run("bench attention --groups all"), "one-head");
  expect_refusal(run("bench attention --variants quick"), "quick");
  expect_refusal(run("bench attention --device cpu --lengths 4 --variants strict"), "'strict'");
  expect_refusal(run("bench attention --device cuda:99"), "cuda:99");
  for (const std::string device : {"cuda:-1", "cuda:", "cuda:1x", "cuda:9999999999", "gpu"})
    expect_refusal(run("bench attention --device " + device), device);
  expect_refusal(run("bench attention --verify --lengths 4 5"), "three");
  expect_refusal(run("bench attention --verify --groups scan"), "--groups");
  expect_refusal(run("bench attention --device cpu --lengths 4 --repeat 1 --json nowhere/b.json"), "nowhere");
}

}  // namespace
}  // namespace vggt::test
