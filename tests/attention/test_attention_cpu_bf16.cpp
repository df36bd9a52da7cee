// The CPU kernel of bf16 against float64 on the same inputs, with LibTorch's flash attention in bf16 as the
// measure.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "attention/attention.h"
#include "attention/cpu/cpu.h"
#include "attention/cpu/cpu_policy.h"
#include "tests/support/attention_cases.h"

namespace {

using vggt::AttentionOptions;
using vggt::AttentionResult;
using vggt::AttentionWant;
using vggt::CpuIsa;

constexpr double kLimit = 4e-3;  // of ||Y - Y64|| / ||Y64||

class AttentionCpuBf16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (vggt::best_cpu_isa() < CpuIsa::avx512_bf16)
      GTEST_SKIP() << "this processor or this build has no AVX512-BF16";
    threads_ = at::get_num_threads();
    at::set_num_threads(1);  // small sizes: waking threads would take most of the time
  }
  void TearDown() override {
    if (threads_ > 0) at::set_num_threads(threads_);
  }
  static Qkv inputs(int64_t b, int64_t a, int64_t nq, int64_t nk, int64_t d, int seed = 0) {
    return random_qkv(b, a, nq, nk, d, on(at::kBFloat16), seed);
  }
  static AttentionOptions options(const Qkv& x, AttentionWant want = AttentionWant::output,
                                  double scale = 0) {
    AttentionOptions options;
    options.want = want;
    options.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(x.q.size(3)));
    return options;
  }
  static AttentionResult run(const Qkv& x, const AttentionOptions& options) {
    return vggt::attention_cpu(x.q, x.k, x.v, options, CpuIsa::avx512_bf16);
  }
  static at::Tensor out_of(const Qkv& x) { return run(x, options(x)).out; }
  static at::Tensor flash(const Qkv& x) {
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v));
  }
  /// `count` queries from `first` on.
  static Qkv queries_of(const Qkv& x, int64_t first, int64_t count) {
    return {x.q.narrow(2, first, count), x.k, x.v};
  }

 private:
  int threads_ = 0;
};

TEST_F(AttentionCpuBf16, EqualsFloat64AtOddSizes) {
  for (int64_t d : {1, 2, 16, 31, 33, 40, 64, 80, 128}) {
    for (int64_t nk : {1, 2, 3, 15, 32, 33, 191, 192, 193, 1041}) {
      for (int64_t nq : {1, 3, 12, 13, 25, 600}) {
        const Qkv x = inputs(2, 8, nq, nk, d, static_cast<int>(nk));
        const at::Tensor got = out_of(x), want = exact(x).out;
        const double ours = norm_error_of(got, want), theirs = norm_error_of(flash(x), want);
        expect_joinable(got);
        EXPECT_EQ(got.scalar_type(), at::kBFloat16);
        EXPECT_LE(ours, kLimit) << shape(nq, nk, d);
        // Of few numbers the error is a matter of chance.
        EXPECT_LE(ours, (x.q.numel() < 4096 ? 1.5 : 1.05) * theirs + 1e-6) << shape(nq, nk, d);
      }
    }
  }
}

// All but one of the weights are the same number, which bf16 rounds down: by itself that does not average
// out.
TEST_F(AttentionCpuBf16, AMeanOfEqualValuesIsTheirValue) {
  const Qkv x = inputs(1, 1, 3, 1041, 64);
  x.q.fill_(0).select(3, 0).fill_(1);
  x.k.fill_(0)[0][0][500][0] = 11.0625;  // times 1/8: a weight of 1 beside e^-1.3828 of the others
  x.v.fill_(1.015625);
  EXPECT_TRUE(at::equal(out_of(x), at::full_like(x.q, 1.015625)));
  const AttentionResult state = run(x, options(x, AttentionWant::state));
  EXPECT_LE(norm_error_of(state.w / state.s.unsqueeze(-1), at::full(x.q.sizes(), 1.015625, at::kDouble)),
            1e-5);
}

TEST_F(AttentionCpuBf16, ErrorDoesNotGrowWithTheKeys) {
  for (int64_t nk : {1024, 8192, 30000}) {
    for (double spread : {1.0, 4.0}) {
      Qkv x = inputs(1, 2, 100, nk, 64);
      x.q = x.q * spread;
      const at::Tensor want = exact(x).out;
      const double ours = norm_error_of(out_of(x), want), theirs = norm_error_of(flash(x), want);
      RecordProperty("n" + std::to_string(nk) + "_spread" + std::to_string(static_cast<int>(spread)),
                     std::to_string(ours) + " against " + std::to_string(theirs));
      EXPECT_LE(ours, kLimit) << nk << " keys, spread " << spread;
      EXPECT_LE(ours, 1.05 * theirs) << nk << " keys, spread " << spread;
    }
  }
}

TEST_F(AttentionCpuBf16, ComputesWhatIsWanted) {
  for (auto [nq, nk, d] : {std::tuple<int64_t, int64_t, int64_t>{1, 7, 5}, {3, 193, 64}, {70, 411, 80}}) {
    const Qkv x = inputs(2, 3, nq, nk, d);
    const at::Tensor out = out_of(x);
    const AttentionResult whole = run(x, options(x, AttentionWant::output_lse)), want = exact(x);
    EXPECT_TRUE(at::equal(whole.out, out));
    EXPECT_EQ(whole.lse.scalar_type(), at::kFloat);
    EXPECT_LE(error_of(whole.lse, want.lse), 2e-6) << shape(nq, nk, d);

    const AttentionResult state = run(x, options(x, AttentionWant::state));
    for (const at::Tensor& part : {state.m, state.s, state.w}) EXPECT_EQ(part.scalar_type(), at::kFloat);
    expect_joinable(state.w);
    const at::Tensor logits = at::matmul(x.q.to(at::kDouble), x.k.to(at::kDouble).transpose(2, 3)) /
                              std::sqrt(static_cast<double>(d));
    EXPECT_LE(error_of(state.m, std::get<0>(logits.max(-1))), 1e-6) << shape(nq, nk, d);
    EXPECT_LE(error_of(state.m + state.s.log(), want.lse), 2e-6) << shape(nq, nk, d);
    EXPECT_LE(norm_error_of((state.w / state.s.unsqueeze(-1)).to(at::kBFloat16), out.to(at::kDouble)), 2e-3)
        << shape(nq, nk, d);
  }
}

TEST_F(AttentionCpuBf16, StatesOverPartsOfTheKeysMergeToTheWhole) {
  const Qkv x = model_qkv(2, 3, 260, 64, on(at::kBFloat16));
  const AttentionResult want = exact(x);
  for (int64_t cut : {0, 1, 101, 192, 259, 260}) {
    auto part = [&](int64_t first, int64_t count) {
      const Qkv some{x.q, x.k.narrow(2, first, count), x.v.narrow(2, first, count)};
      return run(some, options(some, AttentionWant::state));
    };
    const AttentionResult got =
        vggt::finalise_state(vggt::merge_states(part(0, cut), part(cut, 260 - cut)), at::kBFloat16);
    EXPECT_LE(norm_error_of(got.out, want.out), kLimit) << "cut at " << cut;
    EXPECT_LE(error_of(got.lse, want.lse), 2e-6) << "cut at " << cut;
  }
}

TEST_F(AttentionCpuBf16, ARowIsTheSameWhateverQueriesAreBesideIt) {
  for (int64_t d : {40, 64}) {
    const Qkv x = inputs(1, 2, 1300, 331, d);
    const at::Tensor whole = out_of(x);
    at::set_num_threads(2);  // other blocks of queries
    EXPECT_TRUE(at::equal(whole, out_of(x)));
    at::set_num_threads(1);
    for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {503, 2}, {17, 13}, {600, 25}, {5, 700}}) {
      EXPECT_TRUE(at::equal(whole.narrow(2, first, count), out_of(queries_of(x, first, count))))
          << count << " queries from " << first;
    }
  }
}

TEST_F(AttentionCpuBf16, ReadsItsOwnRowsOnly) {
  for (int64_t d : {1, 15, 16, 33, 40, 64, 127}) {
    for (int64_t nk : {1, 16, 50, 193}) {
      const Qkv x = inputs(2, 3, 29, nk, d);
      // Slices at odd places of wider rows of NaN.
      auto within = [](const at::Tensor& part) {
        const at::Tensor wide =
            at::full({part.size(0), part.size(2), part.size(1), part.size(3) + 4}, kNan, part.options());
        const at::Tensor slice = wide.narrow(3, 1, part.size(3)).transpose(1, 2);
        slice.copy_(part);
        return slice;
      };
      EXPECT_TRUE(at::equal(out_of(x), out_of({within(x.q), within(x.k), within(x.v)}))) << shape(29, nk, d);
    }
  }
}

TEST_F(AttentionCpuBf16, WritesNothingBesidesItsResults) {
  constexpr int64_t kMargin = 64, kKeys = 201;
  constexpr uint16_t kUntouched = 0x1234;
  constexpr float kSentinel = 12345.0f;
  for (int64_t nq : {1, 3, 13, 25}) {
    for (int64_t d : {1, 12, 33, 64, 80}) {
      const int64_t step = d + 5, scratch_size = vggt::cpu_scratch_floats(nq, d);
      const Qkv x = inputs(1, 1, nq, kKeys, d);
      vggt::AttentionParams p;
      p.dim = d;
      p.scale = 0.3f;
      p.q_strides.token = p.k_strides.token = p.v_strides.token = d;
      p.out_strides.token = step;
      std::vector<uint16_t> out(2 * kMargin + nq * step, kUntouched);
      std::vector<float> scratch(2 * kMargin + scratch_size, kSentinel);
      vggt::CpuTask task;
      task.q = x.q.const_data_ptr();
      task.k = x.k.const_data_ptr();
      task.v = x.v.const_data_ptr();
      task.queries = task.sequence = nq;
      task.keys = kKeys;
      task.out = &out[kMargin];
      vggt::cpu_kernel(CpuIsa::avx512_bf16, at::kBFloat16)(p, task, &scratch[kMargin]);
      for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
        const int64_t at = i - kMargin;
        const bool result = at >= 0 && at < nq * step && at % step < d;
        ASSERT_EQ(out[i] == kUntouched, !result) << i << ", " << shape(nq, kKeys, d);
      }
      for (int64_t i = 0; i < kMargin; ++i) {
        ASSERT_EQ(scratch[i], kSentinel) << shape(nq, kKeys, d);
        ASSERT_EQ(scratch[kMargin + scratch_size + i], kSentinel) << shape(nq, kKeys, d);
      }
    }
  }
}

TEST_F(AttentionCpuBf16, PackedSequencesEqualCallsOfEach) {
  const std::vector<int64_t> qo{0, 3, 3, 40, 41, 600, 610}, ko{0, 7, 20, 21, 21, 400, 523};
  const Qkv x = inputs(1, 3, qo.back(), ko.back(), 64);
  AttentionOptions packed = options(x, AttentionWant::output_lse);
  packed.q_offsets = at::tensor(qo, at::kLong);
  packed.k_offsets = at::tensor(ko, at::kLong);
  at::set_num_threads(2);
  const AttentionResult got = run(x, packed);
  for (size_t i = 0; i + 1 < qo.size(); ++i) {
    const int64_t nq = qo[i + 1] - qo[i], nk = ko[i + 1] - ko[i];
    const Qkv one{x.q.narrow(2, qo[i], nq), x.k.narrow(2, ko[i], nk), x.v.narrow(2, ko[i], nk)};
    const AttentionResult want = run(one, options(one, AttentionWant::output_lse));
    EXPECT_TRUE(at::equal(got.out.narrow(2, qo[i], nq), want.out)) << "sequence " << i;
    EXPECT_TRUE(at::equal(got.lse.narrow(2, qo[i], nq), want.lse)) << "sequence " << i;
  }
}

TEST_F(AttentionCpuBf16, NegativeAndOddScales) {
  const Qkv x = inputs(1, 2, 70, 151, 47), negated{-x.q, x.k, x.v};
  for (double scale : {-0.3, 1.0, 0.011, -2.0}) {
    const at::Tensor got = run(x, options(x, AttentionWant::output, scale)).out;
    EXPECT_LE(norm_error_of(got, exact(x, scale).out), kLimit) << scale;
    EXPECT_TRUE(at::equal(got, run(negated, options(x, AttentionWant::output, -scale)).out)) << scale;
  }
}

TEST_F(AttentionCpuBf16, LargeLogitsDoNotOverflow) {
  for (int64_t nq : {2, 40}) {
    Qkv x = inputs(1, 2, nq, 301, 64);
    x.q = x.q * 1e4;
    EXPECT_LE(norm_error_of(out_of(x), exact(x).out), kLimit);
  }
}

TEST_F(AttentionCpuBf16, NoKeysGiveZeroAndTheIdentity) {
  const Qkv x = inputs(2, 2, 5, 0, 16);
  const AttentionResult got = run(x, options(x, AttentionWant::output_lse)),
                        state = run(x, options(x, AttentionWant::state));
  EXPECT_TRUE((got.out == 0).all().item<bool>());
  EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
  EXPECT_TRUE((state.m == -kInf).all().item<bool>());
  EXPECT_TRUE((state.s == 0).all().item<bool>());
  EXPECT_TRUE((state.w == 0).all().item<bool>());
  EXPECT_EQ(out_of(inputs(2, 2, 0, 7, 16)).numel(), 0);
}

TEST_F(AttentionCpuBf16, LogitsOfMinusInfinityOnlyCountForNothing) {
  for (int64_t nq : {2, 40}) {
    Qkv x = inputs(1, 1, nq, 151, 64);
    x.q.abs_();
    x.k.fill_(-kInf);
    const AttentionResult got = run(x, options(x, AttentionWant::output_lse));
    EXPECT_TRUE((got.out == 0).all().item<bool>());
    EXPECT_TRUE((got.lse == -kInf).all().item<bool>());

    // Beside others they change nothing.
    x.k.copy_(inputs(1, 1, nq, 151, 64, 1).k);
    const Qkv rest{x.q, x.k.narrow(2, 0, 100), x.v.narrow(2, 0, 100)};
    x.k.narrow(2, 100, 51).fill_(-kInf);
    EXPECT_TRUE(at::equal(out_of(x), out_of(rest)));
  }
}

TEST_F(AttentionCpuBf16, NanAndInfSpoilAsTheMathSays) {
  for (int64_t nq : {2, 40}) {
    for (double bad : {kNan, kInf, -kInf}) {
      for (bool key : {true, false}) {
        Qkv x = inputs(1, 2, nq, 151, 64);
        (key ? x.k : x.v)[0][1][77][3] = bad;
        EXPECT_LE(norm_error_of(out_of(x), exact(x).out), kLimit) << bad << (key ? " key" : " value");
      }
    }
    Qkv x = inputs(1, 2, nq, 151, 64);
    const at::Tensor clean = out_of(x);
    x.q[0][1][1][5] = kNan;
    const at::Tensor got = out_of(x);
    EXPECT_TRUE(got[0][1][1].isnan().all().item<bool>());
    EXPECT_EQ(got.isnan().sum().item<int64_t>(), 64);
    EXPECT_TRUE(at::equal(got[0][0], clean[0][0]));
  }
}

TEST_F(AttentionCpuBf16, IsWhatTheCallTakes) {
  const Qkv x = model_qkv(1, 2, 211, 48, on(at::kBFloat16));
  EXPECT_TRUE(at::equal(vggt::attention(x.q, x.k, x.v).out, out_of(x)));
}

TEST(CpuKernels, OfBf16NeedTheirInstructionSet) {
  EXPECT_FALSE(vggt::takes_bf16(CpuIsa::avx512));
  fails_with("no kernel of BFloat16", [] { vggt::cpu_kernel(CpuIsa::avx512, at::kBFloat16); });
  fails_with("no kernel of Half", [] { vggt::cpu_kernel(CpuIsa::baseline, at::kHalf); });
}

}  // namespace
