// Our CUDA kernels against float64. Skipped without a GPU.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/cuda/built_code.h"
#include "attention/cuda/cuda.h"
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/cuda_problem.h"
#include "attention/cuda/tensor_tile.h"
#include "tests/support/attention_cases.h"

namespace {

using vggt::AttentionOptions;
using vggt::AttentionResult;
using vggt::AttentionVariant;
using vggt::AttentionWant;
using vggt::CudaKernel;
using vggt::CudaPlan;
using vggt::CudaTile;

/// Of the sums of exponentials: lse itself may be near 0.
double lse_error(const at::Tensor& got, const at::Tensor& want) {
  return error_of(got.to(at::kDouble).exp(), want.to(at::kDouble).exp());
}

vggt::CudaElement element_of(at::ScalarType type) {
  return type == at::kFloat      ? vggt::CudaElement::fp32
         : type == at::kBFloat16 ? vggt::CudaElement::bf16
                                 : vggt::CudaElement::fp16;
}

struct KernelTile {
  CudaKernel kernel;
  CudaTile tile;
};

/// A variant with a type that it takes, and the error that it may have (norm_error_of, D = 64).
struct Kernel {
  AttentionVariant variant;
  at::ScalarType type;
  double tolerance, lse_tolerance;
  std::vector<KernelTile> tiles;  // of D = 64, each of which is tested where it fits
};

class AttentionKernel : public ::testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
    const std::string refusal = variant_refusal(GetParam().variant, element_of(GetParam().type), 64,
                                                vggt::cuda_device(at::Device("cuda:0")));
    if (!refusal.empty()) GTEST_SKIP() << refusal;
  }
  at::TensorOptions options() const { return on(GetParam().type, "cuda"); }
  AttentionOptions ask(AttentionWant want = AttentionWant::output_lse) const {
    AttentionOptions options;
    options.want = want;
    options.variant = GetParam().variant;
    return options;
  }
  /// As attention_cuda() takes them.
  AttentionOptions ask_scaled(const Qkv& x, AttentionWant want = AttentionWant::output_lse) const {
    AttentionOptions options = ask(want);
    options.scale = 1 / std::sqrt(static_cast<double>(x.q.size(3)));
    return options;
  }
  std::vector<CudaPlan> every_plan(const Qkv& x, const AttentionOptions& asked) const {
    return alternative_plans(plan_cuda(x.q, x.k, asked), cuda_sizes(x.q, x.k, asked),
                             vggt::cuda_device(x.q.device()));
  }
  std::vector<KernelTile> tiles() const {
    const vggt::CudaDevice device = vggt::cuda_device(at::Device("cuda:0"));
    std::vector<KernelTile> fit;
    for (const KernelTile& one : GetParam().tiles) {
      if (fitted_plan({one.kernel, one.tile, 1}, {1, 1, 1, 64}, device)) fit.push_back(one);
    }
    return fit;
  }
  /// Dot products of 128 terms have √2 the error of those of 64.
  double tolerance(int64_t dim = 64) const {
    return GetParam().tolerance * std::sqrt(std::max(1.0, dim / 64.0));
  }
  /// The operands that the variant computes with: turbo rounds to TF32's mantissa, which fp16 has too.
  at::Tensor rounded(const at::Tensor& x) const {
    return GetParam().variant == AttentionVariant::turbo ? x.to(at::kHalf).to(x.scalar_type()) : x;
  }
  Qkv rounded(const Qkv& x) const { return {rounded(x.q), rounded(x.k), rounded(x.v)}; }

  void check(const AttentionResult& got, const AttentionResult& want, const std::string& what) const {
    EXPECT_EQ(got.out.scalar_type(), GetParam().type);
    expect_joinable(got.out);
    EXPECT_LE(norm_error_of(got.out, want.out), tolerance(want.out.size(3))) << what;
    EXPECT_LE(lse_error(got.lse, want.lse), GetParam().lse_tolerance) << what;
  }
  void check(const AttentionResult& got, const Qkv& x, const std::string& what) const {
    check(got, exact(rounded(x)), what);
  }
  /// With a plan of the test's own.
  AttentionResult run(const Qkv& x, const KernelTile& tile, int partitions,
                      AttentionWant want = AttentionWant::output_lse) const {
    const AttentionOptions options = ask_scaled(x, want);
    return attention_cuda(x.q, x.k, x.v, options, {tile.kernel, tile.tile, partitions});
  }
};

TEST_P(AttentionKernel, EverySizeFrom1To130) {
  for (int64_t n = 1; n <= 130; ++n) {
    const int64_t keys = (n * 37) % 130 + 1;  // another ragged size
    const Qkv x = random_qkv(1, 2, n, keys, 64, options(), static_cast<int>(n));
    for (const KernelTile& tile : tiles()) check(run(x, tile, 1), x, shape(n, keys, 64));
  }
}

TEST_P(AttentionKernel, EveryHeadDim) {
  for (int64_t d : {1, 8, 12, 31, 48, 64, 65, 96, 128}) {
    for (int64_t n : {1, 33, 200}) {
      const Qkv x = random_qkv(2, 2, n, n + 70, d, options());
      check(attention(x.q, x.k, x.v, ask()), x, shape(n, n + 70, d));
    }
  }
}

TEST_P(AttentionKernel, EveryPlanThatATunerTries) {
  for (int64_t d : {64, 65, 128}) {
    const Qkv x = model_qkv(1, 2, 700, d, options());
    const AttentionResult want = exact(rounded(x));
    const AttentionOptions asked = ask_scaled(x);
    for (const CudaPlan& plan : every_plan(x, asked)) {
      check(attention_cuda(x.q, x.k, x.v, asked, plan), want,
            shape(700, 700, d) + ", tile " + std::to_string(plan.tile.queries) + "x" +
                std::to_string(plan.tile.keys) + ", partitions " + std::to_string(plan.partitions));
    }
  }
}

TEST_P(AttentionKernel, StridedAsInTheModelAroundTilesAndChunks) {
  for (int64_t n : {63, 64, 65, 127, 128, 129, 700, 2047, 2048, 2049, 4200}) {
    for (int64_t d : {64, 128}) {
      const Qkv x = model_qkv(2, 3, n, d, options());
      check(attention(x.q, x.k, x.v, ask()), x, shape(n, n, d));
    }
  }
}

TEST_P(AttentionKernel, PartitionsDoNotMatter) {
  for (int64_t keys : {0, 1, 64, 65, 777, 4500}) {
    const Qkv x = random_qkv(2, 2, 150, keys, 64, options());
    const AttentionResult want = exact(rounded(x));
    for (const KernelTile& tile : tiles()) {
      for (int partitions : {1, 2, 3, 5, 8, 31, 32}) {
        const std::string what = shape(150, keys, 64) + ", partitions " + std::to_string(partitions);
        check(run(x, tile, partitions), want, what);
        const AttentionResult state = run(x, tile, partitions, AttentionWant::state);
        check(finalise_state(state, GetParam().type), want, what + ", as a state");
      }
    }
  }
}

TEST_P(AttentionKernel, StatesOverPartsOfTheKeysMergeToTheWhole) {
  const Qkv x = model_qkv(2, 3, 260, 64, options());
  for (int64_t cut : {0, 1, 100, 128, 259, 260}) {
    auto part = [&](int64_t first, int64_t count) {
      return attention(x.q, x.k.narrow(2, first, count), x.v.narrow(2, first, count),
                       ask(AttentionWant::state));
    };
    const AttentionResult both = merge_states(part(0, cut), part(cut, 260 - cut));
    check(finalise_state(both, GetParam().type), x, "cut at " + std::to_string(cut));
  }
}

TEST_P(AttentionKernel, PackedSequencesOfDifferentLengths) {
  const std::vector<int64_t> qo{0, 3, 3, 40, 41, 300, 310}, ko{0, 7, 20, 21, 21, 400, 2523};
  const Qkv x = random_qkv(1, 3, qo.back(), ko.back(), 64, options());
  AttentionOptions packed = ask();
  packed.scale = 0.125;
  packed.q_offsets = at::tensor(qo, at::kLong);
  packed.k_offsets = at::tensor(ko, at::kLong);
  CudaPlan plan = plan_cuda(x.q, x.k, packed);
  for (int partitions : {1, 4}) {
    plan.partitions = partitions;
    const AttentionResult got = attention_cuda(x.q, x.k, x.v, packed, plan);
    for (size_t i = 0; i + 1 < qo.size(); ++i) {
      const int64_t nq = qo[i + 1] - qo[i], nk = ko[i + 1] - ko[i];
      const Qkv one{x.q.narrow(2, qo[i], nq), x.k.narrow(2, ko[i], nk), x.v.narrow(2, ko[i], nk)};
      const AttentionResult want = exact(rounded(one));
      EXPECT_LE(norm_error_of(got.out.narrow(2, qo[i], nq), want.out), tolerance()) << "sequence " << i;
      EXPECT_LE(lse_error(got.lse.narrow(2, qo[i], nq), want.lse), GetParam().lse_tolerance)
          << "sequence " << i;
    }
  }
}

TEST_P(AttentionKernel, NanOfOnePackedSequenceDoesNotReachAnother) {
  const std::vector<int64_t> qo{0, 40, 90, 150}, ko{0, 130, 201, 390};
  Qkv x = random_qkv(1, 2, qo.back(), ko.back(), 64, options());
  for (double bad : {kNan, kInf}) {
    x.k[0][0].slice(0, ko[1], ko[2]) = bad;
    x.v.slice(2, ko[1], ko[2]) = bad;
    AttentionOptions packed = ask();
    packed.q_offsets = at::tensor(qo, at::kLong);
    packed.k_offsets = at::tensor(ko, at::kLong);
    const at::Tensor got = attention(x.q, x.k, x.v, packed).out;
    for (size_t i : {0, 2}) {
      const Qkv one{x.q.slice(2, qo[i], qo[i + 1]), x.k.slice(2, ko[i], ko[i + 1]),
                    x.v.slice(2, ko[i], ko[i + 1])};
      EXPECT_LE(norm_error_of(got.slice(2, qo[i], qo[i + 1]), exact(one).out), 2 * tolerance())
          << "beside " << bad << ", sequence " << i;
    }
  }
}

TEST_P(AttentionKernel, EmptySizesGiveZeroAndTheIdentity) {
  for (auto [nq, nk] : {std::pair<int64_t, int64_t>{4, 0}, {0, 4}, {0, 0}}) {
    const Qkv x = random_qkv(2, 2, nq, nk, 16, options());
    const AttentionResult got = attention(x.q, x.k, x.v, ask());
    const AttentionResult state = attention(x.q, x.k, x.v, ask(AttentionWant::state));
    EXPECT_EQ(got.out.sizes(), x.q.sizes());
    EXPECT_TRUE((got.out == 0).all().item<bool>());
    EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
    EXPECT_TRUE((state.m == -kInf).all().item<bool>());
    EXPECT_TRUE((state.s == 0).all().item<bool>());
    EXPECT_TRUE((state.w == 0).all().item<bool>());
  }
}

TEST_P(AttentionKernel, NegativeAndOddScales) {
  const Qkv x = random_qkv(1, 2, 70, 150, 48, options());
  for (double scale : {-0.3, 1.0, 0.011, -2.0}) {
    AttentionOptions options = ask();
    options.scale = scale;
    const Qkv r = rounded(x);
    const double theirs = norm_error_of(
        std::get<0>(at::_scaled_dot_product_attention_math(r.q, r.k, r.v, {}, 0.0, false, {}, scale)),
        exact(x, scale).out);
    EXPECT_LE(norm_error_of(attention(x.q, x.k, x.v, options).out, exact(x, scale).out),
              2 * theirs + tolerance());
  }
}

TEST_P(AttentionKernel, NanAndInfSpoilAsTheMathSays) {
  for (int64_t nq : {2, 140}) {
    for (double bad : {kNan, kInf, -kInf}) {
      for (int which : {0, 1, 2}) {
        Qkv x = random_qkv(1, 2, nq, 150, 64, options());
        (which == 0 ? x.q[0][1][1][3] : which == 1 ? x.k[0][1][77][3] : x.v[0][1][77][3]).fill_(bad);
        for (const KernelTile& tile : tiles()) {
          for (int partitions : {1, 3}) {
            EXPECT_LE(error_of(run(x, tile, partitions).out, exact(x).out), 8 * tolerance())
                << "bad " << bad << " in "
                << "qkv"[which] << ", partitions " << partitions;
          }
        }
      }
    }
  }
}

TEST_P(AttentionKernel, LogitsOfMinusInfinityOnlyCountForNothing) {
  Qkv x = random_qkv(1, 1, 40, 150, 64, options());
  x.q.abs_();
  x.k.fill_(-kInf);
  const AttentionResult got = attention(x.q, x.k, x.v, ask());
  EXPECT_TRUE((got.out == 0).all().item<bool>());
  EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
}

/// Keys whose logits for a query that begins with `first` are all but the same in blocks of 50.
struct Jumps {
  std::string order;
  double first, step;  // of the first numbers: of queries, of keys from one block to another
};

TEST_P(AttentionKernel, LogitsThatJumpFromTileToTile) {
  constexpr int64_t kKeys = 1000, kBlock = 50, kBlocks = kKeys / kBlock;
  std::vector<Jumps> all;
  for (const char* order : {"rising", "falling", "shuffled", "behind and before -inf"}) {
    // A step is 44 in the logits: exp of two of them is 2^126.96, and its inverse is not a normal number.
    all.push_back({order, 1, 352});
    all.push_back({order, 4, 25});  // 12.5: here split refuses no head
  }
  for (const Jumps& jumps : all) {
    const bool has_infinite = jumps.order.ends_with("-inf");
    Qkv x = random_qkv(1, 2, 150, kKeys, 64, options());
    x.q.select(3, 0) = jumps.first;
    if (!has_infinite) x.q.slice(2, 0, std::nullopt, 3).select(3, 0) = -jumps.first;  // the other way round
    for (int64_t block = 0; block < kBlocks; ++block) {
      const int64_t steps = (jumps.order == "rising"    ? block
                             : jumps.order == "falling" ? kBlocks - block
                                                        : block * 7 % kBlocks) -
                            kBlocks / 2;
      const bool infinite = has_infinite && (block < 4 || block >= kBlocks - 4);
      x.k.select(3, 0).slice(2, block * kBlock, (block + 1) * kBlock) =
          infinite ? -kInf : jumps.step * static_cast<double>(steps);
    }
    const Qkv r = rounded(x);
    const AttentionResult want = exact(r);
    const double theirs =
        norm_error_of(std::get<0>(at::_scaled_dot_product_attention_math(r.q, r.k, r.v)), want.out);
    for (const KernelTile& tile : tiles()) {
      for (int partitions : {1, 3}) {
        const std::string what =
            jumps.order + " by " + std::to_string(jumps.step) + ", partitions " + std::to_string(partitions);
        const AttentionResult got = run(x, tile, partitions);
        EXPECT_LE(norm_error_of(got.out, want.out), 2 * theirs + tolerance()) << what;
        EXPECT_LE(error_of(got.lse, want.lse), 2e-6 * want.lse.abs().max().item<double>()) << what;
        const AttentionResult state = run(x, tile, partitions, AttentionWant::state);
        EXPECT_LE(norm_error_of(finalise_state(state, GetParam().type).out, want.out),
                  2 * theirs + tolerance())
            << what << ", as a state";
        AttentionOptions loose = ask_scaled(x, AttentionWant::state);
        loose.any_m = true;
        const AttentionResult near =
            attention_cuda(x.q, x.k, x.v, loose, {tile.kernel, tile.tile, partitions});
        EXPECT_LE(norm_error_of(finalise_state(near, GetParam().type).out, want.out),
                  2 * theirs + tolerance())
            << what << ", as a state of any m";
        const at::Tensor most = at::matmul(r.q.to(at::kDouble) / 8, r.k.to(at::kDouble).mT()).amax(-1);
        EXPECT_LE(error_of(state.m, most), 2e-6 * most.abs().max().item<double>()) << what;
      }
    }
  }
}

TEST_P(AttentionKernel, LogitsThatJumpInEveryKindOfCall) {
  struct Call {
    int64_t dim;
    double scale;
    std::vector<int64_t> queries, keys;  // offsets of sequences
  };
  const std::vector<Call> calls{{128, 0.125, {0, 150}, {0, 1000}},
                                {64, -0.125, {0, 150}, {0, 1000}},
                                {128, -0.125, {0, 150}, {0, 1000}},
                                {64, 0.125, {0, 70, 150}, {0, 430, 1000}}};
  for (const Call& call : calls) {
    Qkv x = random_qkv(1, 2, 150, 1000, call.dim, options());
    x.q.select(3, 0) = 1;
    for (int64_t block = 0; block < 20; ++block)
      x.k.select(3, 0).slice(2, block * 50, (block + 1) * 50) = 352.0 * (block * 7 % 20 - 10);
    AttentionOptions asked = ask();
    asked.scale = call.scale;
    if (call.keys.size() > 2) {
      asked.q_offsets = at::tensor(call.queries, at::kLong);
      asked.k_offsets = at::tensor(call.keys, at::kLong);
    }
    const AttentionResult got = attention(x.q, x.k, x.v, asked);
    for (size_t i = 0; i + 1 < call.keys.size(); ++i) {
      const std::string what = shape(150, 1000, call.dim) + ", scale " + std::to_string(call.scale) +
                               ", sequence " + std::to_string(i);
      const int64_t q = call.queries[i], q_end = call.queries[i + 1], k = call.keys[i],
                    k_end = call.keys[i + 1];
      const Qkv r = rounded({x.q.slice(2, q, q_end), x.k.slice(2, k, k_end), x.v.slice(2, k, k_end)});
      const AttentionResult want = exact(r, call.scale);
      const double theirs = norm_error_of(
          std::get<0>(at::_scaled_dot_product_attention_math(r.q, r.k, r.v, {}, 0.0, false, {}, call.scale)),
          want.out);
      EXPECT_LE(norm_error_of(got.out.slice(2, q, q_end), want.out), 2 * theirs + tolerance(call.dim))
          << what;
      EXPECT_LE(error_of(got.lse.slice(2, q, q_end), want.lse), 2e-6 * want.lse.abs().max().item<double>())
          << what;
    }
  }
}

TEST_P(AttentionKernel, InputsOfAnySize) {
  if (GetParam().type != at::kFloat) GTEST_SKIP() << "beyond the range of this type";
  for (int64_t terms : {64, 2}) {  // of a product that are not zero
    for (double size : {1e-20, 1e-10, 1e-3, 1.0, 10.0, 30.0, 1e2, 1e4}) {
      // Where logits are large, one row of 600 decides: turbo and `rounded` must round alike.
      if (GetParam().variant == AttentionVariant::turbo) size = std::exp2(std::round(std::log2(size)));
      Qkv x = model_qkv(1, 2, 300, 64, options());
      x.q.slice(3, terms) = 0;
      Qkv r = rounded(x);
      for (at::Tensor* t : {&x.q, &x.k, &x.v, &r.q, &r.k, &r.v}) *t = *t * size;
      const at::Tensor want = exact(x).out;
      const double theirs =
          norm_error_of(std::get<0>(at::_scaled_dot_product_attention_math(r.q, r.k, r.v)), want);
      EXPECT_LE(norm_error_of(attention(x.q, x.k, x.v, ask()).out, want), 2 * theirs + tolerance())
          << size << ", " << terms << " terms";
    }
  }
}

class RefusedHeads : public AttentionKernel {
 protected:
  /// Heads 0.1 and 1.0 hold what the tensor cores cannot.
  Qkv inputs(int64_t batch, int64_t dim) const {
    Qkv x = random_qkv(batch, 3, 150, 777, dim, options());
    x.v[0][1][33] *= 1e-7;               // far below the head's largest number
    if (batch > 1) x.k[1][0][5] *= 1e9;  // logits out of all bounds
    return x;
  }
  /// Refused heads are as exact as strict's, the others as the variant.
  void check_heads(const at::Tensor& got, const Qkv& x, const std::string& what) const {
    const at::Tensor close = exact(x).out, wide = exact(rounded(x)).out;
    for (int64_t b = 0; b < got.size(0); ++b) {
      for (int64_t a = 0; a < got.size(1); ++a) {
        const bool refused = b == 0 ? a == 1 : a == 0;
        EXPECT_LE(norm_error_of(got[b][a], refused ? close[b][a] : wide[b][a]),
                  refused ? 1.5e-6 : tolerance(x.q.size(3)))
            << what << ", head " << b << "." << a;
      }
    }
  }
};

TEST_P(RefusedHeads, AreComputedInFp32BesideTheOthers) {
  for (int64_t dim : {64, 128}) {
    const Qkv x = inputs(2, dim);
    const AttentionOptions asked = ask_scaled(x), states = ask_scaled(x, AttentionWant::state);
    for (const CudaPlan& plan : every_plan(x, asked)) {
      const std::string what = shape(150, 777, dim) + ", partitions " + std::to_string(plan.partitions);
      check_heads(attention_cuda(x.q, x.k, x.v, asked, plan).out, x, what);
      check_heads(finalise_state(attention_cuda(x.q, x.k, x.v, states, plan), at::kFloat).out, x,
                  what + ", as a state");
    }
  }
}

/// Of x [B,A,N,D] with this bound for each head, as norm_rope_() leaves them.
at::Tensor in_parts(const at::Tensor& x, const at::Tensor& bounds) {
  const at::Tensor factor = (14 - bounds.log2().floor()).exp2().unsqueeze(-1).unsqueeze(-1);
  const at::Tensor high = (x * factor).to(at::kHalf);
  return at::stack({high, (x * factor - high).to(at::kHalf)});
}

TEST_P(RefusedHeads, AreThoseOfPartsThatWereMadeBefore) {
  for (int64_t dim : {64, 128}) {
    const Qkv x = inputs(2, dim);
    vggt::QkParts parts;
    const auto largest_of = [](const at::Tensor& t) { return t.abs().amax({2, 3}); };
    parts.largest = at::stack({largest_of(x.q), largest_of(x.k)});
    parts.bounds = 9 * at::cat({parts.largest, largest_of(x.v).unsqueeze(0)});
    parts.q = in_parts(x.q, parts.bounds[0]);
    parts.k = in_parts(x.k, parts.bounds[1]);
    AttentionOptions asked = ask_scaled(x), states = ask_scaled(x, AttentionWant::state);
    for (const CudaPlan& plan : every_plan(x, asked)) {
      asked.parts = states.parts = &parts;
      const std::string what = shape(150, 777, dim) + ", partitions " + std::to_string(plan.partitions);
      check_heads(attention_cuda(x.q, x.k, x.v, asked, plan).out, x, what);
      check_heads(finalise_state(attention_cuda(x.q, x.k, x.v, states, plan), at::kFloat).out, x,
                  what + ", as a state");
      // A head with a number that is not finite comes from q, k and v themselves.
      parts.largest[0][0][0] = INFINITY;
      check_heads(attention_cuda(x.q, x.k, x.v, asked, plan).out, x, what + ", head 0.0 refused too");
      parts.largest[0][0][0] = x.q[0][0].abs().max();
      Qkv bad = x;
      bad.v = x.v.clone();
      // Of a row, which then is too small or not finite.
      for (const double number : {double{NAN}, double{INFINITY}, 0.0}) {
        bad.v[1][2][776] = number;
        const at::Tensor got = attention_cuda(bad.q, bad.k, bad.v, asked, plan).out;
        EXPECT_LE(error_of(got[1][2], exact(bad).out[1][2]), 1e-5) << what << ", a row of " << number;
        EXPECT_LE(norm_error_of(got[1][1], exact(rounded(bad)).out[1][1]), tolerance(dim)) << what;
      }
    }
    // What parts say is computed, not q and k: of zeros every key weighs the same.
    parts.q.zero_();
    const at::Tensor mean = x.v[0][0].mean(0), got = attention(x.q, x.k, x.v, asked).out[0][0];
    const bool reads = GetParam().variant == AttentionVariant::split;
    EXPECT_EQ(norm_error_of(got, mean.expand_as(got)) < 1e-5, reads);
    // Of heads of which a bound says too little they are not taken.
    const at::Tensor bounds = parts.bounds.clone();
    for (const auto& [which, factor] : {std::pair(0, 456.0), {1, 456.0}, {2, 0x1p19}, {2, 0x1p-10}}) {
      parts.bounds = bounds.clone();
      parts.bounds[which] *= factor;
      EXPECT_LE(norm_error_of(attention(x.q, x.k, x.v, asked).out[0][0], exact(rounded(x)).out[0][0]),
                tolerance(dim))
          << "qkv"[which] << ", " << factor;
    }
    parts.k = parts.k.narrow(3, 0, 776).contiguous();
    EXPECT_THROW(attention(x.q, x.k, x.v, asked), c10::Error);
  }
}

TEST(PartsRoom, IsForCallsThatReadParts) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const vggt::CudaDevice device = vggt::cuda_device(at::Device("cuda:0"));
  if (!variant_refusal(AttentionVariant::split, vggt::CudaElement::fp32, 64, device).empty())
    GTEST_SKIP() << "no split here";
  AttentionOptions split;
  split.variant = AttentionVariant::split;
  const at::TensorOptions fp32 = on(at::kFloat, "cuda:0");
  const auto room = vggt::room_for_parts({2, 3, 100, 64}, fp32, split);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->q.sizes(), at::IntArrayRef({2, 2, 3, 100, 64}));
  EXPECT_EQ(room->bounds.sizes(), at::IntArrayRef({3, 2, 3}));
  EXPECT_EQ(room->largest.abs().max().item<float>(), 0);
  EXPECT_FALSE(vggt::room_for_parts({2, 3, 100, 40}, fp32, split));
  EXPECT_FALSE(vggt::room_for_parts({2, 3, 100, 64}, fp32.dtype(at::kHalf), split));
  EXPECT_FALSE(vggt::room_for_parts({2, 3, 100, 64}, on(at::kFloat, "cpu"), split));
  EXPECT_FALSE(vggt::room_for_parts({1, 16, 208200, 64}, fp32, split));  // a few heads at a time
  split.variant = AttentionVariant::strict;
  EXPECT_FALSE(vggt::room_for_parts({2, 3, 100, 64}, fp32, split));
}

TEST_P(RefusedHeads, WhereAllWeightIsOnAKeyWithoutAValue) {
  for (int64_t key : {0, 400, 776}) {
    for (double logit : {21.0, 30.0}) {
      const Qkv x = random_qkv(1, 1, 150, 777, 64, options());
      x.q.select(3, 0).fill_(4);
      x.k[0][0][key].fill_(0)[0].fill_(2 * logit);  // times 4/8
      x.v[0][0][key].fill_(0);
      EXPECT_LE(norm_error_of(attention(x.q, x.k, x.v, ask()).out, exact(x).out), 4e-6)
          << "key " << key << ", logit " << logit;
    }
  }
}

TEST_P(RefusedHeads, OfPackedSequences) {
  const Qkv x = inputs(1, 64);
  const std::vector<int64_t> qo{0, 40, 41, 150}, ko{0, 20, 300, 777};
  AttentionOptions packed = ask();
  packed.q_offsets = at::tensor(qo, at::kLong);
  packed.k_offsets = at::tensor(ko, at::kLong);
  const at::Tensor got = attention(x.q, x.k, x.v, packed).out;
  for (size_t i = 0; i + 1 < qo.size(); ++i) {
    const Qkv one{x.q.slice(2, qo[i], qo[i + 1]), x.k.slice(2, ko[i], ko[i + 1]),
                  x.v.slice(2, ko[i], ko[i + 1])};
    check_heads(got.slice(2, qo[i], qo[i + 1]), one, "sequence " + std::to_string(i));
  }
}

TEST_P(AttentionKernel, ErrorStaysWhereItIs) {
  constexpr int64_t kRows = 64;
  std::vector<double> errors;
  const std::vector<int64_t> sizes{1024, 4096, 16384, 104100};
  for (int64_t n : sizes) {
    const Qkv x = random_qkv(1, 2, kRows, n, 64, options());
    errors.push_back(norm_error_of(run(x, tiles()[0], 1).out, exact(x).out));
    EXPECT_LE(errors.back(), tolerance()) << "N " << n;
    RecordProperty("n" + std::to_string(n), std::to_string(errors.back()));
    if (GetParam().variant == AttentionVariant::split) {
      const at::Tensor theirs =
          std::get<0>(at::_scaled_dot_product_efficient_attention(x.q, x.k, x.v, {}, false));
      EXPECT_LE(errors.back(), norm_error_of(theirs, exact(x).out)) << "than mem-efficient's, N " << n;
    }
  }
  const double slope = std::log(errors.back() / errors.front()) /
                       std::log(static_cast<double>(sizes.back()) / static_cast<double>(sizes.front()));
  if (GetParam().variant == AttentionVariant::strict) {
    EXPECT_LE(slope, 0.1);
  }
}

TEST_P(AttentionKernel, WritesNothingBesidesItsResults) {
  constexpr float kSentinel = 12345;
  constexpr int64_t kGap = 8;  // behind each row of the output
  for (int64_t nq : {1, 31, 129}) {
    const Qkv x = random_qkv(1, 2, nq, 100, 64, options());
    const at::Tensor out = at::full({2, nq + 2, 64 + kGap}, kSentinel, options());
    const at::Tensor lse = at::full({2 * nq + 2}, kSentinel, on(at::kFloat, "cuda"));
    vggt::CudaProblem p;
    p.type = element_of(GetParam().type);
    p.q = x.q.const_data_ptr();
    p.k = x.k.const_data_ptr();
    p.v = x.v.const_data_ptr();
    p.q_strides = {2 * nq * 64, nq * 64, 64};
    p.k_strides = p.v_strides = {2 * 100 * 64, 100 * 64, 64};
    p.batch = p.sequences = 1;
    p.heads = 2;
    p.queries = p.longest_queries = static_cast<int>(nq);
    p.keys = p.longest_keys = 100;
    p.dim = 64;
    p.scale = 0.125f;
    p.out = out.narrow(1, 1, nq).mutable_data_ptr();
    p.out_strides = {0, (nq + 2) * (64 + kGap), 64 + kGap};
    p.lse = lse.narrow(0, 1, 2 * nq).mutable_data_ptr<float>();
    for (const KernelTile& tile : tiles()) {
      const CudaPlan plan{tile.kernel, tile.tile, 1};
      out.fill_(kSentinel);
      lse.fill_(kSentinel);
      ASSERT_EQ(launch_attention(p, plan, c10::cuda::getCurrentCUDAStream()), cudaSuccess);
      const at::Tensor got = out.narrow(1, 1, nq).narrow(2, 0, 64);
      EXPECT_LE(norm_error_of(got, exact(rounded(x)).out[0]), tolerance());
      EXPECT_EQ((out != kSentinel).sum().item<int64_t>(), got.numel());
      EXPECT_EQ((lse != kSentinel).sum().item<int64_t>(), 2 * nq);
      EXPECT_EQ(lse[0].item<float>(), kSentinel);
    }
  }
}

TEST_P(AttentionKernel, MoreBatchEntriesThanAGridHasRows) {
  const Qkv x = random_qkv(70000, 1, 2, 3, 64, options());
  check(attention(x.q, x.k, x.v, ask()), x, "70000 sequences");
}

/// Bytes of the device's memory that `compute` takes at most, beside what is there already.
template <class Compute>
int64_t most_bytes(Compute compute) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  allocator::resetPeakStats(0);
  const int64_t before = allocator::getDeviceStats(0).allocated_bytes[all].current;
  compute();
  return allocator::getDeviceStats(0).allocated_bytes[all].peak - before;
}

TEST_P(AttentionKernel, APartOfTheHeadsAtATimeGivesWhatEachGivesAlone) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  if (GetParam().type != at::kFloat || free < (size_t{12} << 30)) GTEST_SKIP() << "of fp32 alone, in 12 GiB";
  constexpr int64_t kKeys = 2'200'000, kOther = int64_t{64} << 20;  // bytes of outputs and of partitions
  const Qkv heads = random_qkv(1, 3, 40, kKeys, 64, options());
  auto transposed = [](const at::Tensor& x) { return x.transpose(0, 1); };  // three sequences of one head
  const Qkv sequences{transposed(heads.q), transposed(heads.k), transposed(heads.v)};
  for (AttentionWant want : {AttentionWant::output_lse, AttentionWant::state}) {
    const CudaPlan plan = plan_cuda(heads.q, heads.k, ask_scaled(heads, want));
    AttentionResult of_heads, of_sequences;
    EXPECT_LE(most_bytes([&] {
                of_heads = attention_cuda(heads.q, heads.k, heads.v, ask_scaled(heads, want), plan);
              }),
              vggt::kMostPartBytes + kOther);
    of_sequences = attention_cuda(sequences.q, sequences.k, sequences.v, ask_scaled(heads, want), plan);
    for (int64_t head = 0; head < 3; ++head) {
      const Qkv one{heads.q.narrow(1, head, 1), heads.k.narrow(1, head, 1), heads.v.narrow(1, head, 1)};
      const AttentionResult alone = attention_cuda(one.q, one.k, one.v, ask_scaled(one, want), plan);
      auto expect_same = [&](at::Tensor AttentionResult::*part) {
        if (!(alone.*part).defined()) return;
        EXPECT_TRUE(at::equal((of_heads.*part).narrow(1, head, 1), alone.*part)) << "head " << head;
        EXPECT_TRUE(at::equal((of_sequences.*part).narrow(0, head, 1), alone.*part)) << "sequence " << head;
      };
      for (auto part : {&AttentionResult::out, &AttentionResult::lse, &AttentionResult::m,
                        &AttentionResult::s, &AttentionResult::w})
        expect_same(part);
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Kernel>& info) {
  return at::toString(info.param.type);
}

INSTANTIATE_TEST_SUITE_P(Strict, AttentionKernel,
                         ::testing::Values(Kernel{
                             AttentionVariant::strict,
                             at::kFloat,
                             5e-7,
                             4e-6,
                             {{CudaKernel::strict, {128, 64}}, {CudaKernel::strict, {64, 32}}}}),
                         name_of);

const Kernel kSplit{AttentionVariant::split,
                    at::kFloat,
                    1.5e-6,
                    8e-6,
                    {{CudaKernel::split_sm90, vggt::kSplitTile90},
                     {CudaKernel::split_sm80, vggt::kSplitTiles80[0]},
                     {CudaKernel::split_sm80, vggt::kSplitTiles80[1]}}};
const Kernel kTurbo{AttentionVariant::turbo,
                    at::kFloat,
                    5e-4,
                    2e-4,
                    {{CudaKernel::turbo_sm90, vggt::kHalfTile90},
                     {CudaKernel::turbo_sm80, vggt::kHalfTiles80[0]},
                     {CudaKernel::turbo_sm80, vggt::kHalfTiles80[1]}}};
const std::vector<KernelTile> kHalfTiles{{CudaKernel::half_sm90, vggt::kHalfTile90},
                                         {CudaKernel::half_sm80, vggt::kHalfTiles80[0]},
                                         {CudaKernel::half_sm80, vggt::kHalfTiles80[1]}};

INSTANTIATE_TEST_SUITE_P(Split, AttentionKernel, ::testing::Values(kSplit), name_of);
INSTANTIATE_TEST_SUITE_P(Split, RefusedHeads, ::testing::Values(kSplit), name_of);
INSTANTIATE_TEST_SUITE_P(Turbo, AttentionKernel, ::testing::Values(kTurbo), name_of);
INSTANTIATE_TEST_SUITE_P(Turbo, RefusedHeads, ::testing::Values(kTurbo), name_of);

INSTANTIATE_TEST_SUITE_P(Half, AttentionKernel,
                         ::testing::Values(Kernel{AttentionVariant::half, at::kBFloat16, 4e-3, 8e-6,
                                                  kHalfTiles},
                                           Kernel{AttentionVariant::half, at::kHalf, 5e-4, 8e-6, kHalfTiles}),
                         name_of);

TEST(AttentionRefusals, NameVariantAndReason) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const Qkv x = random_qkv(1, 1, 4, 4, 64, on(at::kBFloat16, "cuda"));
  AttentionOptions options;
  options.variant = AttentionVariant::strict;
  try {
    attention(x.q, x.k, x.v, options);
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("variant strict needs fp32, got bf16"), std::string::npos)
        << e.what();
  }
}

TEST(AttentionCudaThreads, CallsAtOnceOnStreamsOfTheirOwnGiveWhatEachAloneGives) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const std::vector<Qkv> inputs = {model_qkv(1, 4, 700, 64, on(at::kFloat, "cuda"), 1),
                                   model_qkv(2, 3, 1041, 64, on(at::kBFloat16, "cuda"), 2),
                                   random_qkv(1, 2, 90, 2100, 128, on(at::kHalf, "cuda"), 3)};
  std::vector<at::Tensor> alone;
  for (const Qkv& x : inputs) alone.push_back(vggt::attention(x.q, x.k, x.v).out.cpu());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the inputs are there for every stream
  constexpr int kThreads = 4, kCalls = 8;
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
      for (int call = 0; call < kCalls; ++call) {
        const std::size_t i = static_cast<std::size_t>(thread + call) % inputs.size();
        const at::Tensor got = vggt::attention(inputs[i].q, inputs[i].k, inputs[i].v).out.cpu();
        wrong[thread] += !at::equal(got, alone[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

// CUDA remembers an error until somebody asks for it, and LibTorch asks after its next launch.
TEST(AttentionErrors, LeaveNothingForTheNextLaunchToFind) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const int no_kernel = 0;
  EXPECT_FALSE(vggt::built_code(&no_kernel));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  vggt::strict_built();
  vggt::sm80_built();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  const Qkv x = random_qkv(1, 1, 4, 4, 64, on(at::kFloat, "cuda"));
  AttentionOptions options;
  options.scale = 0.125;
  EXPECT_THROW(attention_cuda(x.q, x.k, x.v, options, {CudaKernel::strict, {77, 64}, 1}), c10::Error);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(AttentionErrors, ABuildForTheDeviceHasStrict) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  const vggt::CudaDevice device = vggt::cuda_device(at::Device("cuda:0"));
  EXPECT_EQ(device.strict, device.capability >= 75 && vggt::strict_built());
  EXPECT_TRUE(device.strict || !device.mma);  // strict computes the heads that split and turbo refuse
}

}  // namespace
