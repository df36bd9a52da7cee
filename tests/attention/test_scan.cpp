// Prefix scans over states: every form against sums in float64, for all prefixes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "attention/bench/scan/scan.h"
#include "attention/bench/scan/scan_steps.h"

namespace {

using vggt::AttentionResult;
using vggt::ScanForm;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// States over some keys each, with maxima that rise, fall or neither; every 11th is over no keys.
AttentionResult states(int64_t a, int64_t n, int64_t d, double slope, at::Device device = at::kCPU) {
  at::manual_seed(static_cast<uint64_t>(n));
  const at::Tensor ramp = at::linspace(-slope, slope, n, at::kDouble);  // [N]
  AttentionResult x;
  x.m = (4 * at::randn({1, a, n}, at::kDouble) + ramp).to(at::kFloat);
  x.s = (1 + 9 * at::rand({1, a, n}, at::kDouble)).to(at::kFloat);
  x.w = (x.s.unsqueeze(-1) * at::randn({1, a, n, d})).contiguous();
  for (int64_t i = 5; i < n; i += 11) {
    x.m.select(2, i).fill_(-kInf);
    x.s.select(2, i).zero_();
    x.w.select(2, i).zero_();
  }
  for (at::Tensor* t : {&x.m, &x.s, &x.w}) *t = t->to(device);
  return x;
}

/// How far output and log-sum-exp of all prefixes are from sums in float64, relative to the size of values.
double error_of(const AttentionResult& x, const AttentionResult& got) {
  auto wide = [](const at::Tensor& t) { return t.to(at::kCPU, at::kDouble); };
  const at::Tensor factor = (wide(x.m) - wide(x.m).amax()).exp();                        // [1,A,N]
  const at::Tensor s = at::cumsum(wide(x.s) * factor, 2);                                // [1,A,N]
  const at::Tensor w = at::cumsum(wide(x.w) * factor.unsqueeze(-1), 2);                  // [1,A,N,D]
  const at::Tensor lse = s.log() + wide(x.m).amax();                                     // [1,A,N]
  const at::Tensor out = wide(got.w) / wide(got.s).unsqueeze(-1) - w / s.unsqueeze(-1);  // [1,A,N,D]
  const at::Tensor sums = (wide(got.m) + wide(got.s).log() - lse).exp() - 1;             // [1,A,N]
  const at::Tensor maxima = wide(got.m) - std::get<0>(wide(x.m).cummax(2));              // [1,A,N]
  return at::cat({out.flatten(), sums.flatten(), maxima.flatten()}).abs().max().item<double>();
}

std::string named(ScanForm form, int64_t n, int block) {
  return std::string(name_of(form)) + ", n " + std::to_string(n) + ", block " + std::to_string(block);
}

TEST(Scan, EveryFormGivesAllPrefixesForAnyBlock) {
  for (int64_t n : {1, 2, 5, 31, 127, 128, 129, 1000}) {
    for (double slope : {0.0, 60.0, -60.0}) {
      const AttentionResult x = states(2, n, 16, slope);
      for (int block : {0, 1, 2, 3, 7, 64, 128, 200, 2000}) {
        for (ScanForm form : {ScanForm::recurrence, ScanForm::two_level, ScanForm::chunked})
          EXPECT_LE(error_of(x, scan_states(x, form, block)), 1e-5) << named(form, n, block);
      }
    }
  }
}

TEST(Scan, HillisSteeleAndBlellochAreTheRecurrenceForEveryLength) {
  using State = vggt::SoftmaxState<double, 1>;
  for (int n = 1; n <= 130; ++n) {
    std::vector<State> x(n), other(n), want(n);
    for (int i = 0; i < n; ++i) {
      const double v = i % 7 - 2.0;
      x[i] = State::of(3.0 * ((i * 37) % 11), &v);
    }
    want = x;
    vggt::recurrence(State(), n, [&](int i) -> State& { return want[i]; });
    std::vector<State> exclusive = x;
    exclusive.resize(vggt::power_of_two_from(n));
    vggt::blelloch(vggt::HostLanes(), exclusive.data(), static_cast<int>(exclusive.size()));
    const State* inclusive = vggt::hillis_steele(vggt::HostLanes(), x.data(), other.data(), n);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(inclusive[i].m, want[i].m);
      EXPECT_NEAR(inclusive[i].s, want[i].s, 1e-13 * want[i].s) << n;
      EXPECT_NEAR(inclusive[i].w[0], want[i].w[0], 1e-12 * want[i].s) << n;
      const State before = i == 0 ? State() : want[i - 1];
      EXPECT_EQ(exclusive[i].m, before.m);
      EXPECT_NEAR(exclusive[i].s, before.s, 1e-13 * before.s) << n;
    }
  }
}

TEST(Scan, NoStatesHaveNoPrefixes) {
  EXPECT_EQ(scan_states(states(2, 0, 8, 0), ScanForm::two_level).w.numel(), 0);
}

TEST(Scan, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(scan_states(states(1, 4, 12, 0), ScanForm::two_level), c10::Error);
  EXPECT_THROW(scan_states(states(1, 4, 8, 0), ScanForm::cub_device), c10::Error);
  EXPECT_THROW(scan_states(states(1, 4, 8, 0), ScanForm::chunked, -1), c10::Error);
  EXPECT_THROW(scan_states(AttentionResult(), ScanForm::chunked), c10::Error);
}

class ScanOnGpuOver : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(ScanOnGpuOver, EveryFormGivesAllPrefixes) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  for (int64_t n : GetParam()) {
    for (int64_t lines : {1, 6}) {
      const AttentionResult x = states(lines, n, 64, 60, at::Device("cuda:0"));
      for (ScanForm form :
           {ScanForm::two_level, ScanForm::cub_block, ScanForm::chunked, ScanForm::cub_device}) {
        for (int block : {0, 64, 128, 256})
          EXPECT_LE(error_of(x, scan_states(x, form, block)), 2e-5) << named(form, n, block);
      }
    }
  }
}

const std::vector<int64_t> kFew{1, 2, 5, 63, 64, 65, 127, 128, 129, 255, 257}, kMany{1041, 16656, 104100};
INSTANTIATE_TEST_SUITE_P(FewStates, ScanOnGpuOver, ::testing::Values(kFew));
INSTANTIATE_TEST_SUITE_P(ManyStates, ScanOnGpuOver, ::testing::Values(kMany));

TEST(ScanOnGpu, WhatDoesNotFitIsRefused) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const at::Device gpu("cuda:0");
  EXPECT_THROW(scan_states(states(1, 4, 8, 0, gpu), ScanForm::two_level), c10::Error);
  EXPECT_THROW(scan_states(states(1, 4, 64, 0, gpu), ScanForm::two_level, 100), c10::Error);
  EXPECT_THROW(scan_states(states(1, 4, 64, 0, gpu), ScanForm::recurrence), c10::Error);
}

}  // namespace
