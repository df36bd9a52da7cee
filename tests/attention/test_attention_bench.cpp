// What the benchmark of attention measures with: percentiles, turns, drift and growth, on kernels whose
// faults are known.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "attention/attention.h"
#include "attention/bench/attempt.h"
#include "attention/bench/contenders.h"
#include "attention/bench/drift.h"
#include "attention/bench/error_growth.h"
#include "attention/bench/timing.h"

namespace {

using vggt::AttentionInputs;
using vggt::AttentionResult;
using vggt::AttentionWant;

const at::Device kCpu(at::kCPU);

/// Float64 itself, with a fault: factors on the logits' exponentials and on the output.
vggt::OurKernel faulty(double lse_off, double output_factor) {
  vggt::OurKernel kernel;
  kernel.name = "faulty";
  kernel.attend = [=](const AttentionInputs& x, AttentionWant want) {
    vggt::AttentionOptions options;
    options.want = want;
    AttentionResult result =
        vggt::attention(x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble), options);
    if (result.lse.defined() && x.k.size(2) > 1) result.lse += lse_off;
    if (result.out.defined()) result.out *= output_factor;
    return result;
  };
  return kernel;
}

TEST(BenchTiming, PercentilesAreByNearestRank) {
  EXPECT_EQ(vggt::percentile({3, 1, 2, 4}, 0.5), 2);
  EXPECT_EQ(vggt::percentile({3, 1, 2, 4}, 0.99), 4);
  EXPECT_EQ(vggt::percentile({7}, 0.5), 7);
  EXPECT_EQ(vggt::spread({1, 2, 3, 4}), 1);  // (3 - 1) / 2
}

TEST(BenchTiming, TheOthersGoOnWhenOneFails) {
  int good = 0, bad = 0;
  const std::vector<std::function<void()>> calls{[&] { ++good; },
                                                 [&] { TORCH_CHECK(++bad < 3, "enough\nof it"); }};
  std::vector<std::string> failures;
  const auto seconds = vggt::Turns{kCpu, 4, 100}.time(
      calls, [&](std::size_t i, const std::string& why) { failures.push_back(std::to_string(i) + why); });
  EXPECT_EQ(failures, std::vector<std::string>{"1refused: enough"});
  EXPECT_EQ(seconds[0].size(), 4u);
  EXPECT_TRUE(seconds[1].empty());
  EXPECT_GE(good, 5);
}

TEST(BenchTiming, TooLittleTimeLeavesTwoRounds) {
  const std::vector<std::function<void()>> calls{[] {}};
  EXPECT_EQ((vggt::Turns{kCpu, 9, 0}).time(calls, [](std::size_t, const std::string&) {})[0].size(), 2u);
}

TEST(BenchAttempt, MemoryIsToldFromRefusal) {
  EXPECT_EQ(vggt::attempt([] {}), "");
  EXPECT_EQ(vggt::attempt([] { throw std::bad_alloc(); }), "out of memory");
  EXPECT_EQ(vggt::attempt([] { at::empty({int64_t{1} << 50}); }), "out of memory");
  EXPECT_EQ(vggt::attempt([] { TORCH_CHECK(false, "no"); }), "refused: no");
  EXPECT_EQ(vggt::attempt([] { TORCH_CHECK(false, "CUDA error: out of memory\nmore"); }), "out of memory");
  EXPECT_EQ(vggt::attempt([] { throw std::runtime_error("no\nmore"); }), "refused: no");
  EXPECT_THROW(vggt::attempt([] { throw std::logic_error("ours"); }), std::logic_error);
}

TEST(BenchInputs, PackedSequencesAreSampledEach) {
  const AttentionInputs x = vggt::normal_inputs({5, 1, 30}, 2, 8, at::kFloat, kCpu);
  EXPECT_EQ(x.sequences(), 3);
  EXPECT_EQ(x.longest, 30);
  const vggt::SampledRows sample = vggt::sample_exactly(x, 4);
  EXPECT_TRUE(at::equal(sample.rows, at::tensor({0, 1, 3, 4, 5, 6, 16, 25, 35}, at::kLong))) << sample.rows;
  for (const vggt::Peer& peer : vggt::peers(kCpu, at::kFloat))
    EXPECT_LT(sample.error_of(peer.run(x)), 1e-6) << peer.name;
  for (const vggt::OurKernel& kernel : vggt::our_kernels(kCpu, at::kFloat, 8, {}))
    EXPECT_LT(sample.error_of(kernel.attend(x, AttentionWant::output).out), 1e-6) << kernel.name;
}

TEST(BenchInputs, StressMakesTheLogitsDrift) {
  const AttentionInputs x = vggt::stress_inputs(400, 2, 64, at::kDouble, kCpu);
  const at::Tensor logits = at::matmul(x.q, x.k.transpose(2, 3)) / 8;  // [1,2,400,400]
  const at::Tensor drift =
      (logits.slice(3, 380, 400).mean(3) - logits.slice(3, 0, 20).mean(3)).mean(at::IntArrayRef{0, 1});
  EXPECT_NEAR(drift.slice(0, 0, 400, 2).mean().item<double>(), 122, 6);  // of 128, between means of 20
  EXPECT_NEAR(drift.slice(0, 1, 400, 2).mean().item<double>(), -122, 6);
}

TEST(BenchDrift, IsWhatWasDoneToTheKernel) {
  const vggt::Oracle oracle(vggt::normal_inputs({200}, 2, 16, at::kFloat, kCpu), 50);
  const vggt::Drift none = drift_of(faulty(0, 1), oracle);
  for (const auto& values : none) {
    EXPECT_EQ(values.size(), 100u);
    EXPECT_LT(vggt::percentile(values, 1), 1e-13);
  }
  // Weights 1 % too small, outputs 3 % too large.
  const vggt::Drift some = drift_of(faulty(-std::log(0.99), 1.03), oracle);
  for (double share : {0.01, 0.99}) {
    EXPECT_NEAR(vggt::percentile(some[vggt::relative_dp], share), 0.01, 1e-12);
    EXPECT_NEAR(vggt::percentile(some[vggt::relative_dy], share), 0.03, 1e-12);
  }
  EXPECT_GT(vggt::percentile(some[vggt::max_dp], 0.5), 1e-5);
  EXPECT_GT(vggt::percentile(some[vggt::jensen_shannon], 0.5), 1e-6);
  EXPECT_EQ(vggt::percentile(some[vggt::argmax_differs], 1), 0);
}

TEST(BenchDrift, AnotherLargestWeightIsSeen) {
  const vggt::Oracle oracle(vggt::normal_inputs({20}, 1, 8, at::kDouble, kCpu), 20);
  const vggt::Drift swapped = oracle.drift_of({oracle.p[0].roll(1, 1)}, oracle.y);
  EXPECT_EQ(vggt::percentile(swapped[vggt::argmax_differs], 0.01), 1);
  EXPECT_EQ(vggt::percentile(swapped[vggt::max_dy], 1), 0);
}

TEST(BenchGrowth, SlopeIsOfTheLogarithms) {
  EXPECT_NEAR((vggt::ErrorGrowth{{10, 100, 1000}, {1, 2, 4}}).slope(), std::log10(2), 1e-12);
  EXPECT_NEAR((vggt::ErrorGrowth{{10, 100}, {3, 3}}).slope(), 0, 1e-12);
  const auto growth = vggt::error_growth(faulty(0, 1.25), {16, 40}, 1, 8, at::kFloat, kCpu);
  for (double error : growth.errors) EXPECT_NEAR(error, 0.25, 1e-12);
}

TEST(BenchGrowth, BlocksOfKeysMergeToTheWhole) {
  const AttentionInputs x = vggt::normal_inputs({300}, 2, 16, at::kFloat, kCpu);
  const auto error = vggt::blockwise_error(faulty(0, 1.25), x, vggt::spread_rows(300, 40, kCpu));
  EXPECT_LT(error.blockwise, 1e-6);  // states have no such fault
  EXPECT_NEAR(error.global, 0.25, 1e-12);
}

}  // namespace
