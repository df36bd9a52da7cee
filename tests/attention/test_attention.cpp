// attention() against its float64 reference, with LibTorch's error at the same precision as the measure.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "attention/attention.h"
#include "attention/cpu/cpu.h"
#include "attention/cpu/cpu_policy.h"
#include "attention/packed_offsets.h"
#include "attention/reference.h"
#include "tests/support/attention_cases.h"

namespace {

using vggt::AttentionOptions;
using vggt::AttentionResult;
using vggt::AttentionWant;
using vggt::CpuIsa;

/// The house rule: error at most twice LibTorch's at the same precision plus a rounding floor.
void expect_accurate(const at::Tensor& out, const Qkv& x, const at::Tensor& want, const std::string& what,
                     std::optional<double> scale = std::nullopt) {
  double theirs = 0;
  if (x.q.numel() > 0 && x.k.numel() > 0) {
    theirs = error_of(at::scaled_dot_product_attention(x.q, x.k, x.v, std::nullopt, 0.0, false, scale), want);
  }
  const double ours = error_of(out, want);
  EXPECT_LE(ours, 2 * theirs + rounding_floor(x.q.scalar_type())) << what << ", LibTorch's error " << theirs;
}

// ---- LibTorch's flash attention in place of ours

TEST(AttentionCpuFlash, PaysForLongOutputsInBf16OnMatrixUnits) {
  const Qkv x = random_qkv(1, 2, 300, 400, 64, on(at::kBFloat16)),
            full = random_qkv(1, 2, 300, 400, 64, on(at::kFloat)),
            few = random_qkv(1, 2, 40, 400, 64, on(at::kBFloat16)),
            odd = random_qkv(1, 2, 300, 400, 60, on(at::kBFloat16));
  AttentionOptions options;
  options.scale = 0.125;
  EXPECT_EQ(vggt::flash_pays_on_cpu(x.q, x.k, options), vggt::cpu_can("amx_bf16"));
  for (const Qkv* other : {&full, &few, &odd})
    EXPECT_FALSE(vggt::flash_pays_on_cpu(other->q, other->k, options));
  options.want = AttentionWant::output_lse;
  EXPECT_FALSE(vggt::flash_pays_on_cpu(x.q, x.k, options));
}

TEST(AttentionCpuFlash, IsAsExactAndLaidOutAsOurs) {
  const Qkv x = random_qkv(2, 3, 300, 411, 64, on(at::kBFloat16));
  AttentionOptions options;
  options.scale = 0.2;
  const at::Tensor out = vggt::attention_flash_cpu(x.q, x.k, x.v, options).out;
  const Qkv exact{x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble)};
  EXPECT_LE(error_of(out, attention(exact.q, exact.k, exact.v, options).out), 4e-3);
  EXPECT_TRUE(out.transpose(1, 2).is_contiguous());
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
}

// ---- the reference itself

TEST(AttentionReference, EqualsTheDefinition) {
  const Qkv x = random_qkv(2, 3, 9, 14, 5, on(at::kDouble));
  const double scale = 0.7;
  AttentionOptions options;
  options.scale = scale;
  options.want = AttentionWant::output_lse;
  const AttentionResult got = attention(x.q, x.k, x.v, options);
  const auto q = x.q.accessor<double, 4>(), k = x.k.accessor<double, 4>(), v = x.v.accessor<double, 4>();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t a = 0; a < 3; ++a) {
      for (int64_t i = 0; i < 9; ++i) {
        long double s = 0, w[5] = {};
        for (int64_t j = 0; j < 14; ++j) {
          long double logit = 0;
          for (int64_t d = 0; d < 5; ++d) logit += static_cast<long double>(q[b][a][i][d]) * k[b][a][j][d];
          const long double e = std::exp(scale * logit);
          s += e;
          for (int64_t d = 0; d < 5; ++d) w[d] += e * v[b][a][j][d];
        }
        EXPECT_NEAR(got.lse[b][a][i].item<double>(), static_cast<double>(std::log(s)), 1e-13);
        for (int64_t d = 0; d < 5; ++d) {
          EXPECT_NEAR(got.out[b][a][i][d].item<double>(), static_cast<double>(w[d] / s), 1e-13);
        }
      }
    }
  }
}

TEST(AttentionReference, ChunksOfQueriesDoNotMatter) {
  // More logits than the reference holds at a time.
  const Qkv x = random_qkv(1, 2, 2500, 2100, 8, on(at::kDouble));
  const AttentionResult whole = exact(x);
  const Qkv tail{x.q.narrow(2, 2400, 100), x.k, x.v};
  EXPECT_LE(error_of(whole.out.narrow(2, 2400, 100), exact(tail).out), 1e-14);
}

// ---- every instruction set of this machine, every size

std::string name_of(CpuIsa isa) {
  return isa == CpuIsa::avx512 ? "avx512" : isa == CpuIsa::avx2 ? "avx2" : "baseline";
}

class AttentionCpu : public ::testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (GetParam() > vggt::best_cpu_isa()) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    threads_ = at::get_num_threads();
    at::set_num_threads(1);  // small sizes: waking threads would take most of the time
  }
  void TearDown() override {
    if (threads_ > 0) at::set_num_threads(threads_);
  }
  AttentionResult run(const Qkv& x, AttentionWant want = AttentionWant::output_lse, double scale = 0) {
    AttentionOptions options;
    options.want = want;
    options.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(x.q.size(3)));
    return vggt::attention_cpu(x.q, x.k, x.v, options, GetParam());
  }
  void check(const Qkv& x, const std::string& what) {
    const AttentionResult got = run(x), want = exact(x);
    expect_joinable(got.out);
    expect_accurate(got.out, x, want.out, what);
    EXPECT_LE(error_of(got.lse, want.lse), 1e-6) << what;
  }

 private:
  int threads_ = 0;
};

TEST_P(AttentionCpu, EverySizeFrom1To130) {
  for (int64_t n = 1; n <= 130; ++n) {
    for (int64_t d : {8, 12, 48, 64, 96, 128}) {
      const int64_t keys = (n * 37) % 130 + 1;  // another ragged size
      check(random_qkv(1, 2, n, keys, d, on(at::kFloat), static_cast<int>(n)), shape(n, keys, d));
    }
  }
}

TEST_P(AttentionCpu, SizesAroundTheTiles) {
  for (int64_t nq : {23, 24, 25, 511, 512, 513}) {
    for (int64_t nk : {127, 128, 129, 255, 256, 257, 1041}) {
      for (int64_t d : {1, 31, 64, 65}) check(random_qkv(1, 1, nq, nk, d, on(at::kFloat)), shape(nq, nk, d));
    }
  }
}

TEST_P(AttentionCpu, FewQueriesLongKeys) {
  for (int64_t nq = 1; nq <= 7; ++nq) {
    for (int64_t d : {32, 64, 100}) check(random_qkv(2, 3, nq, 1000, d, on(at::kFloat)), shape(nq, 1000, d));
  }
}

TEST_P(AttentionCpu, StridedAsInTheModelOnOneAndTwoThreads) {
  const Qkv x = model_qkv(3, 4, 333, 64, on(at::kFloat));
  check(x, "one thread");
  const at::Tensor alone = run(x).out;
  at::set_num_threads(2);
  check(x, "two threads");
  EXPECT_TRUE(at::equal(alone, run(x).out));
}

TEST_P(AttentionCpu, OneLongSequenceIsCutOverThreads) {
  const Qkv x = random_qkv(1, 1, 2000, 700, 64, on(at::kFloat));
  at::set_num_threads(2);
  check(x, "one head");
}

TEST_P(AttentionCpu, ManyTinySequences) {
  for (int64_t n : {1, 2, 5, 9}) {
    at::set_num_threads(2);
    check(model_qkv(700, 8, n, 48, on(at::kFloat)), "tiny " + std::to_string(n));
  }
}

TEST_P(AttentionCpu, HalfTypesRoundTheirOutput) {
  for (auto type : {at::kBFloat16, at::kHalf}) {
    for (int64_t n : {1, 65, 300}) {
      const Qkv x = model_qkv(1, 3, n, 64, on(type));
      const AttentionResult got = run(x);
      EXPECT_EQ(got.out.scalar_type(), type);
      EXPECT_EQ(got.lse.scalar_type(), at::kFloat);
      expect_joinable(got.out);
      expect_accurate(got.out, x, exact(x).out, "half");
    }
  }
}

TEST_P(AttentionCpu, ErrorGrowsNoFasterThanLibTorchs) {
  for (int64_t n : {1000, 4000, 16000}) {
    for (double spread : {1.0, 4.0}) {
      Qkv x = random_qkv(1, 2, 100, n, 64, on(at::kFloat));
      x.q = x.q * spread;
      const at::Tensor want = exact(x).out;
      const double ours = error_of(run(x, AttentionWant::output).out, want);
      const double theirs = error_of(at::scaled_dot_product_attention(x.q, x.k, x.v), want);
      std::ostringstream errors;
      errors << ours << " against " << theirs;
      RecordProperty("n" + std::to_string(n) + "_spread" + std::to_string(static_cast<int>(spread)),
                     errors.str());
      EXPECT_LE(ours, 1.5 * theirs) << "N " << n << " spread " << spread;
    }
  }
}

TEST_P(AttentionCpu, StatesOverPartsOfTheKeysMergeToTheWhole) {
  const Qkv x = model_qkv(2, 3, 260, 64, on(at::kFloat));
  const AttentionResult want = exact(x);
  for (int64_t cut : {0, 1, 100, 128, 259, 260}) {
    const Qkv first{x.q, x.k.narrow(2, 0, cut), x.v.narrow(2, 0, cut)};
    const Qkv rest{x.q, x.k.narrow(2, cut, 260 - cut), x.v.narrow(2, cut, 260 - cut)};
    const AttentionResult state =
        vggt::merge_states(run(first, AttentionWant::state), run(rest, AttentionWant::state));
    const AttentionResult got = vggt::finalise_state(state, at::kFloat);
    expect_joinable(got.out);
    expect_accurate(got.out, x, want.out, "cut at " + std::to_string(cut));
    EXPECT_LE(error_of(got.lse, want.lse), 1e-6);
  }
}

TEST_P(AttentionCpu, NegativeAndOddScales) {
  const Qkv x = random_qkv(1, 2, 70, 150, 48, on(at::kFloat));
  for (double scale : {-0.3, 1.0, 0.011, -2.0}) {
    expect_accurate(run(x, AttentionWant::output, scale).out, x, exact(x, scale).out, std::to_string(scale),
                    scale);
  }
}

TEST_P(AttentionCpu, LargeLogitsDoNotOverflow) {
  for (int64_t nq : {2, 40}) {
    Qkv x = random_qkv(1, 2, nq, 300, 64, on(at::kFloat));
    x.q = x.q * 1e4;
    const AttentionResult got = run(x);
    EXPECT_TRUE(got.out.isfinite().all().item<bool>());
    expect_accurate(got.out, x, exact(x).out, "logits of 1e4");
  }
}

TEST_P(AttentionCpu, NoKeysGiveZeroAndTheIdentity) {
  const Qkv x = random_qkv(2, 2, 5, 0, 16, on(at::kFloat));
  const AttentionResult got = run(x), state = run(x, AttentionWant::state);
  EXPECT_TRUE((got.out == 0).all().item<bool>());
  EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
  EXPECT_TRUE((state.m == -kInf).all().item<bool>());
  EXPECT_TRUE((state.s == 0).all().item<bool>());
  EXPECT_TRUE((state.w == 0).all().item<bool>());
  EXPECT_EQ(run(random_qkv(2, 2, 0, 7, 16, on(at::kFloat))).out.numel(), 0);
  EXPECT_EQ(run(random_qkv(0, 2, 3, 7, 16, on(at::kFloat))).out.numel(), 0);
}

TEST_P(AttentionCpu, NanInAQuerySpoilsItsRowOnly) {
  for (int64_t nq : {3, 40}) {
    Qkv x = random_qkv(1, 2, nq, 150, 64, on(at::kFloat));
    const at::Tensor clean = run(x).out.clone();
    x.q[0][1][2][5] = kNan;
    const at::Tensor got = run(x).out;
    EXPECT_TRUE(got[0][1][2].isnan().all().item<bool>());
    at::Tensor rest = got.isnan().clone();
    rest[0][1][2] = false;
    EXPECT_FALSE(rest.any().item<bool>());
    EXPECT_TRUE(at::equal(got[0][0], clean[0][0]));
  }
}

TEST_P(AttentionCpu, NanAndInfInKeysAndValuesSpoilAsTheMathSays) {
  for (int64_t nq : {2, 40}) {
    for (double bad : {kNan, kInf, -kInf}) {
      for (bool key : {true, false}) {
        Qkv x = random_qkv(1, 2, nq, 150, 64, on(at::kFloat));
        (key ? x.k : x.v)[0][1][77][3] = bad;
        EXPECT_LE(error_of(run(x).out, exact(x).out), 4e-6) << "bad " << bad << (key ? " key" : " value");
      }
    }
  }
}

TEST_P(AttentionCpu, LogitsOfMinusInfinityOnlyCountForNothing) {
  for (int64_t nq : {2, 40}) {
    Qkv x = random_qkv(1, 1, nq, 150, 64, on(at::kFloat));
    x.q.abs_();
    x.k.fill_(-kInf);
    const AttentionResult got = run(x);
    EXPECT_TRUE((got.out == 0).all().item<bool>());
    EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
    EXPECT_TRUE((exact(x).out == 0).all().item<bool>());
  }
}

TEST_P(AttentionCpu, PackedSequencesOfDifferentLengths) {
  const std::vector<int64_t> qo{0, 3, 3, 40, 41, 300, 310}, ko{0, 7, 20, 21, 21, 400, 523};
  const Qkv x = random_qkv(1, 3, qo.back(), ko.back(), 64, on(at::kFloat));
  AttentionOptions options;
  options.scale = 0.125;
  options.want = AttentionWant::output_lse;
  options.q_offsets = at::tensor(qo, at::kLong);
  options.k_offsets = at::tensor(ko, at::kLong);
  at::set_num_threads(2);
  const AttentionResult got = vggt::attention_cpu(x.q, x.k, x.v, options, GetParam());
  for (size_t i = 0; i + 1 < qo.size(); ++i) {
    const int64_t nq = qo[i + 1] - qo[i], nk = ko[i + 1] - ko[i];
    const Qkv one{x.q.narrow(2, qo[i], nq), x.k.narrow(2, ko[i], nk), x.v.narrow(2, ko[i], nk)};
    const AttentionResult want = exact(one);
    expect_accurate(got.out.narrow(2, qo[i], nq), one, want.out, "sequence " + std::to_string(i));
    EXPECT_LE(error_of(got.lse.narrow(2, qo[i], nq), want.lse), 1e-6);
  }
}

TEST_P(AttentionCpu, WritesNothingBesidesItsResults) {
  constexpr float kSentinel = 12345.0f;
  for (int64_t nq : {1, 3, 7, 25, 61}) {
    for (int64_t d : {1, 12, 48, 64}) {
      constexpr int64_t kKeys = 201, kMargin = 64;
      const int64_t step = d + 5;  // of an output row
      const Qkv x = random_qkv(1, 1, nq, kKeys, d, on(at::kFloat));
      vggt::AttentionParams p;
      p.dim = d;
      p.scale = 0.3f;
      p.q_strides.token = p.k_strides.token = p.v_strides.token = d;
      p.out_strides.token = step;
      const int64_t scratch_size = vggt::cpu_scratch_floats(nq, d);
      std::vector<float> out(2 * kMargin + nq * step, kSentinel), w = out;
      std::vector<float> lse(2 * kMargin + nq, kSentinel), m = lse, s = lse;
      std::vector<float> scratch(2 * kMargin + scratch_size, kSentinel);
      vggt::CpuTask task;
      task.q = x.q.const_data_ptr<float>();
      task.k = x.k.const_data_ptr<float>();
      task.v = x.v.const_data_ptr<float>();
      task.queries = task.sequence = nq;
      task.keys = kKeys;
      task.out = &out[kMargin];
      task.w = &w[kMargin];
      task.lse = &lse[kMargin];
      task.m = &m[kMargin];
      task.s = &s[kMargin];
      vggt::cpu_kernel(GetParam(), at::kFloat)(p, task, &scratch[kMargin]);
      auto expect_margins = [&](const std::vector<float>& all, int64_t size) {
        for (int64_t i = 0; i < kMargin; ++i) {
          ASSERT_EQ(all[i], kSentinel) << "before, " << shape(nq, kKeys, d);
          ASSERT_EQ(all[kMargin + size + i], kSentinel) << "after, " << shape(nq, kKeys, d);
        }
      };
      expect_margins(out, nq * step);
      expect_margins(w, nq * step);
      expect_margins(lse, nq);
      expect_margins(m, nq);
      expect_margins(s, nq);
      expect_margins(scratch, scratch_size);
      for (int64_t row = 0; row < nq; ++row) {
        for (int64_t i = 0; i < step; ++i) {
          ASSERT_EQ(out[kMargin + row * step + i] == kSentinel, i >= d) << shape(nq, kKeys, d);
          ASSERT_EQ(w[kMargin + row * step + i] == kSentinel, i >= d) << shape(nq, kKeys, d);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionCpu, ::testing::Values(CpuIsa::baseline, CpuIsa::avx2, CpuIsa::avx512),
                         [](const auto& info) { return name_of(info.param); });

// ---- the policy is a pure function that changes speed only

TEST(AttentionPolicy, CoversEveryQueryWithinItsBounds) {
  for (int64_t heads : {1, 16}) {
    for (int64_t n : {0, 1, 23, 24, 25, 1041, 4164, 100000}) {
      for (int threads : {1, 2, 64}) {
        vggt::AttentionParams p;
        p.batch = p.sequences = 1;
        p.heads = heads;
        p.queries = p.keys = p.longest = n;
        p.dim = 64;
        const vggt::CpuPolicy policy = vggt::choose_cpu_policy(p, CpuIsa::avx2, threads);
        EXPECT_GE(policy.block * policy.blocks, n);
        EXPECT_LE(policy.block, 512);
        EXPECT_GE(policy.grain, 1);
        EXPECT_LE(policy.threads, threads);
        EXPECT_GE(policy.blocks * heads, std::min<int64_t>(policy.threads, n / 48)) << n << " on " << threads;
      }
    }
  }
}

// ---- packed sequences

TEST(PackedOffsets, CutTheTokensUp) {
  vggt::check_offsets(at::tensor({0, 3, 3, 10}, at::kLong), 10, "q_offsets");
  EXPECT_EQ(vggt::longest_sequence(at::tensor({0, 3, 3, 10}, at::kLong)), 7);
  EXPECT_EQ(vggt::longest_sequence(at::tensor({0}, at::kLong)), 0);
  for (const at::Tensor& bad :
       {at::tensor({0, 3, 9}, at::kLong), at::tensor({1, 10}, at::kLong), at::tensor({0, 11, 10}, at::kLong),
        at::tensor({0, 10}, at::kInt), at::zeros({0}, at::kLong), at::zeros({2, 2}, at::kLong)})
    EXPECT_THROW(vggt::check_offsets(bad, 10, "q_offsets"), c10::Error) << bad.sizes();
}

// ---- the public call from several threads

TEST(AttentionThreads, CallsAtOnceGiveWhatEachAloneGives) {
  const std::vector<Qkv> inputs = {
      model_qkv(1, 4, 700, 64, on(at::kFloat), 1), model_qkv(2, 3, 331, 48, on(at::kBFloat16), 2),
      random_qkv(1, 2, 90, 2100, 128, on(at::kFloat), 3), random_qkv(1, 2, 60, 50, 8, on(at::kDouble), 4)};
  AttentionOptions options;
  options.want = AttentionWant::output_lse;
  std::vector<AttentionResult> alone;
  for (const Qkv& x : inputs) alone.push_back(attention(x.q, x.k, x.v, options));
  constexpr int kThreads = 4, kCalls = 8;
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int call = 0; call < kCalls; ++call) {
        const std::size_t i = static_cast<std::size_t>(thread + call) % inputs.size();
        const AttentionResult got = attention(inputs[i].q, inputs[i].k, inputs[i].v, options);
        wrong[thread] += !at::equal(got.out, alone[i].out) || !at::equal(got.lse, alone[i].lse);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

// ---- the public call, on each device

class AttentionOn : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  void SetUp() override {
    if (std::string(device()) == "cuda" && !at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
    threads_ = at::get_num_threads();
    at::set_num_threads(1);
  }
  void TearDown() override {
    if (threads_ > 0) at::set_num_threads(threads_);
  }
  const char* device() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }
  at::TensorOptions options() const { return on(type(), device()); }
  /// Of lse: fp16 and bf16 products are exact in fp32, whatever the type.
  static double lse_tolerance() { return 4e-6; }

 private:
  int threads_ = 0;
};

TEST_P(AttentionOn, EqualsFloat64AtRaggedSizes) {
  for (int64_t n : {1, 2, 31, 64, 65, 130, 700, 2100}) {
    for (int64_t d : {8, 12, 48, 64, 96, 128}) {
      if (n == 2100 && d != 64) continue;
      const Qkv x = model_qkv(2, 2, n, d, options(), static_cast<int>(n));
      AttentionOptions want_lse;
      want_lse.want = AttentionWant::output_lse;
      const AttentionResult got = attention(x.q, x.k, x.v, want_lse), want = exact(x);
      EXPECT_EQ(got.out.scalar_type(), type());
      expect_joinable(got.out);
      expect_accurate(got.out, x, want.out, shape(n, n, d));
      EXPECT_LE(error_of(got.lse, want.lse), lse_tolerance()) << shape(n, n, d);
      const at::Tensor alone = vggt::attention(x.q, x.k, x.v).out;
      AttentionOptions settled;
      settled.scale = 1 / std::sqrt(static_cast<double>(d));
      if (x.q.is_cpu() && vggt::flash_pays_on_cpu(x.q, x.k, settled)) {  // another kernel
        expect_accurate(alone, x, want.out, shape(n, n, d) + ", by flash");
      } else {
        EXPECT_TRUE(at::equal(alone, got.out)) << shape(n, n, d);
      }
    }
  }
}

TEST_P(AttentionOn, StatesMergeToTheWhole) {
  const Qkv x = model_qkv(1, 3, 200, 64, options());
  const AttentionResult want = exact(x);
  AttentionOptions state;
  state.want = AttentionWant::state;
  for (int64_t cut : {0, 1, 77, 200}) {
    auto part = [&](int64_t first, int64_t count) {
      return attention(x.q, x.k.narrow(2, first, count), x.v.narrow(2, first, count), state);
    };
    const AttentionResult both = vggt::merge_states(part(0, cut), part(cut, 200 - cut));
    EXPECT_EQ(both.w.scalar_type(), type() == at::kDouble ? at::kDouble : at::kFloat);
    const AttentionResult got = vggt::finalise_state(both, type());
    expect_joinable(got.out);
    expect_accurate(got.out, x, want.out, "cut at " + std::to_string(cut));
    EXPECT_LE(error_of(got.lse, want.lse), lse_tolerance());
  }
}

TEST_P(AttentionOn, PackedSequences) {
  const std::vector<int64_t> qo{0, 3, 3, 40, 41, 90}, ko{0, 7, 20, 21, 21, 100};
  const Qkv x = random_qkv(1, 2, qo.back(), ko.back(), 64, options());
  AttentionOptions packed;
  packed.want = AttentionWant::output_lse;
  packed.q_offsets = at::tensor(qo, at::kLong);
  packed.k_offsets = at::tensor(ko, at::kLong);
  const AttentionResult got = attention(x.q, x.k, x.v, packed);
  for (size_t i = 0; i + 1 < qo.size(); ++i) {
    const int64_t nq = qo[i + 1] - qo[i], nk = ko[i + 1] - ko[i];
    const Qkv one{x.q.narrow(2, qo[i], nq), x.k.narrow(2, ko[i], nk), x.v.narrow(2, ko[i], nk)};
    const AttentionResult want = exact(one);
    expect_accurate(got.out.narrow(2, qo[i], nq), one, want.out, "sequence " + std::to_string(i));
    EXPECT_LE(error_of(got.lse.narrow(2, qo[i], nq), want.lse), lse_tolerance());
  }
}

TEST_P(AttentionOn, EmptySizes) {
  for (auto [nq, nk] : {std::pair<int64_t, int64_t>{4, 0}, {0, 4}, {0, 0}}) {
    const Qkv x = random_qkv(2, 2, nq, nk, 16, options());
    AttentionOptions want_lse;
    want_lse.want = AttentionWant::output_lse;
    const AttentionResult got = attention(x.q, x.k, x.v, want_lse);
    EXPECT_EQ(got.out.sizes(), x.q.sizes());
    EXPECT_TRUE((got.out == 0).all().item<bool>());
    EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(DeviceType, AttentionOn,
                         ::testing::Combine(::testing::Values("cpu", "cuda"),
                                            ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  at::toString(std::get<1>(info.param));
                         });

TEST(AttentionCuda, MoreBatchEntriesThanAGridHasRows) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const Qkv x = random_qkv(70000, 1, 2, 3, 8, on(at::kHalf, "cuda"));
  expect_accurate(vggt::attention(x.q, x.k, x.v).out, x, exact(x).out, "70000 sequences");
}

// ---- mistakes of the caller

TEST(AttentionErrors, NameWhatWasExpectedAndGot) {
  const Qkv x = random_qkv(1, 2, 4, 6, 8, on(at::kFloat));
  fails_with("[B,A,Nk,D]", [&] { vggt::attention(x.q, x.k, x.v.narrow(2, 0, 5)); });
  fails_with("[B,A,N,D]", [&] { vggt::attention(x.q[0], x.k[0], x.v[0]); });
  fails_with("one type", [&] { vggt::attention(x.q, x.k.to(at::kDouble), x.v); });
  fails_with("contiguous last", [&] {
    const at::Tensor q = x.q.transpose(2, 3).contiguous().transpose(2, 3);
    vggt::attention(q, x.k, x.v);
  });
  fails_with("fp64, fp32", [&] { vggt::attention(x.q.to(at::kInt), x.k.to(at::kInt), x.v.to(at::kInt)); });
  AttentionOptions options;
  options.q_offsets = at::tensor(std::vector<int64_t>{0, 4}, at::kLong);
  fails_with("both q_offsets", [&] { vggt::attention(x.q, x.k, x.v, options); });
  options.k_offsets = at::tensor(std::vector<int64_t>{0, 5}, at::kLong);
  fails_with("k_offsets from 0 to 6", [&] { vggt::attention(x.q, x.k, x.v, options); });
  options.k_offsets = at::tensor(std::vector<int64_t>{0, 7, 6}, at::kLong);
  fails_with("ascending", [&] { vggt::attention(x.q, x.k, x.v, options); });
  options.k_offsets = at::tensor(std::vector<int64_t>{0, 2, 6}, at::kLong);
  fails_with("as many sequences", [&] { vggt::attention(x.q, x.k, x.v, options); });
  AttentionOptions strict;
  strict.variant = vggt::AttentionVariant::strict;
  fails_with("expected CUDA tensors", [&] { vggt::attention(x.q, x.k, x.v, strict); });
}

}  // namespace
