// attention_lean(): whatever the size of the chunks and wherever the keys lie, it is attention().
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "attention/stream/lean.h"
#include "attention/stream/row_copy.h"
#include "tests/support/attention_cases.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif

namespace {

using vggt::attention_lean;
using vggt::AttentionOptions;
using vggt::AttentionResult;
using vggt::AttentionVariant;
using vggt::AttentionWant;
using vggt::LeanTimes;

constexpr int64_t kKeys = 203;
const std::vector<int64_t> kEtas = {1, 7, 64, 101, 202, 203, 204, std::numeric_limits<int64_t>::max()};

AttentionOptions ask(AttentionWant want, AttentionVariant variant = AttentionVariant::automatic) {
  AttentionOptions options;
  options.want = want;
  options.variant = variant;
  return options;
}

/// Merging rounds each chunk's sums once more.
double tolerance(at::ScalarType type, int64_t eta) {
  if (type == at::kDouble) return 1e-14;
  return rounding_floor(type) * (2 + static_cast<double>(kKeys) / static_cast<double>(eta) / 32);
}

void expect_exact(const AttentionResult& got, const Qkv& x, int64_t eta, const std::string& what) {
  const AttentionResult want = exact(x);
  EXPECT_EQ(got.out.scalar_type(), x.q.scalar_type()) << what;
  expect_joinable(got.out);
  EXPECT_LE(norm_error_of(got.out, want.out), tolerance(x.q.scalar_type(), eta)) << what << ", eta " << eta;
  EXPECT_LE(error_of(got.lse, want.lse), 2e-6) << what << ", eta " << eta;
}

// ---- on the CPU

class LeanTypes : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(LeanTypes, EqualsAttentionForAnyChunk) {
  for (int64_t dim : {5, 64}) {
    const Qkv x = model_qkv(2, 3, kKeys, dim, on(GetParam()));
    for (int64_t eta : kEtas) {
      const AttentionResult got = attention_lean(x.q, x.k, x.v, eta, ask(AttentionWant::output_lse));
      expect_exact(got, x, eta, "D " + std::to_string(dim));
    }
  }
}

TEST_P(LeanTypes, StatesFinishToTheSameOutput) {
  const Qkv x = random_qkv(1, 2, 50, kKeys, 16, on(GetParam()));
  for (int64_t eta : kEtas) {
    const AttentionResult state = attention_lean(x.q, x.k, x.v, eta, ask(AttentionWant::state));
    EXPECT_FALSE(state.out.defined());
    expect_exact(finalise_state(state, GetParam()), x, eta, "as a state");
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, LeanTypes, ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST(Lean, OneChunkIsAttentionToTheBit) {
  const Qkv x = model_qkv(2, 3, kKeys, 64, on(at::kFloat));
  const AttentionResult got = attention_lean(x.q, x.k, x.v, kKeys);
  const AttentionResult state = attention(x.q, x.k, x.v, ask(AttentionWant::state));
  EXPECT_FALSE(got.lse.defined());
  EXPECT_TRUE(at::equal(got.out, finalise_state(state, at::kFloat).out));
}

TEST_P(LeanTypes, ManyQueriesGoSomeAfterTheOthers) {
  const Qkv x = random_qkv(1, 3, 70'000, 40, 8, on(GetParam()));
  for (auto want : {AttentionWant::output_lse, AttentionWant::state}) {
    AttentionResult got = attention_lean(x.q, x.k, x.v, 13, ask(want));
    if (want == AttentionWant::state) got = vggt::finalise_state(got, GetParam());
    expect_exact(got, x, 13, "70000 queries");
  }
}

TEST(Lean, PackedSequencesAreCutToo) {
  const std::vector<int64_t> qo{0, 3, 3, 40, 41, 100}, ko{0, 7, 20, 21, 21, kKeys};
  const Qkv x = random_qkv(1, 3, qo.back(), ko.back(), 16, on(at::kDouble));
  AttentionOptions packed = ask(AttentionWant::output_lse);
  packed.q_offsets = at::tensor(qo, at::kLong);
  packed.k_offsets = at::tensor(ko, at::kLong);
  const AttentionResult want = attention(x.q, x.k, x.v, packed);
  for (int64_t eta : kEtas) {
    const AttentionResult got = attention_lean(x.q, x.k, x.v, eta, packed);
    EXPECT_LE(norm_error_of(got.out, want.out), 1e-14) << eta;
    EXPECT_LE(error_of(got.lse, want.lse), 1e-14) << eta;
  }
}

TEST(Lean, NoKeysGiveZeroAndTheIdentity) {
  const Qkv x = random_qkv(2, 2, 5, 0, 16, on(at::kFloat));
  const AttentionResult got = attention_lean(x.q, x.k, x.v, 4, ask(AttentionWant::output_lse));
  EXPECT_TRUE((got.out == 0).all().item<bool>());
  EXPECT_TRUE((got.lse == -kInf).all().item<bool>());
  const Qkv none = random_qkv(2, 2, 0, 9, 16, on(at::kFloat));
  EXPECT_EQ(attention_lean(none.q, none.k, none.v, 4).out.sizes(), none.q.sizes());
}

TEST(Lean, ANanKeySpoilsWhatItSpoilsInOnePiece) {
  for (bool key : {true, false}) {
    Qkv x = random_qkv(1, 2, 9, kKeys, 16, on(at::kFloat));
    (key ? x.k : x.v)[0][1][77][3] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_LE(error_of(attention_lean(x.q, x.k, x.v, 20).out, exact(x).out), 4e-6);
  }
}

TEST(Lean, TheCpuNeverWaits) {
  const Qkv x = random_qkv(1, 2, 50, kKeys, 16, on(at::kFloat));
  LeanTimes times{1, 2, 3, 4};
  attention_lean(x.q, x.k, x.v, 50, {}, &times);
  EXPECT_EQ(times.copy_ms, 0);
  EXPECT_EQ(times.wait_ms, 0);
  EXPECT_GT(times.total_ms, 0);
  EXPECT_EQ(times.compute_ms, times.total_ms);
  EXPECT_EQ(times.overlap_efficiency(), 1);
  EXPECT_EQ((LeanTimes{9, 6, 2, 8}).overlap_efficiency(), 0.75);
  EXPECT_EQ(LeanTimes().overlap_efficiency(), 1);
}

TEST(Lean, CallersMistakesAreNamed) {
  const Qkv x = random_qkv(1, 2, 5, 6, 8, on(at::kFloat));
  fails_with("eta of at least 1", [&] { attention_lean(x.q, x.k, x.v, 0); });
  fails_with("[B,A,Nk,D]", [&] { attention_lean(x.q, x.k, x.v.narrow(2, 0, 5), 4); });
  fails_with("[B,A,Nk,D]", [&] { attention_lean(x.q[0], x.k[0], x.v[0], 4); });
  fails_with("one type", [&] { attention_lean(x.q, x.k.to(at::kDouble), x.v, 4); });
  AttentionOptions packed;
  packed.q_offsets = at::tensor({0, 5}, at::kLong);
  packed.k_offsets = at::tensor({0, 9}, at::kLong);
  fails_with("k_offsets from 0 to 6", [&] { attention_lean(x.q, x.k, x.v, 4, packed); });
  packed.q_offsets = at::tensor({0, 2, 5}, at::kLong);
  for (int64_t middle : {-1, 9}) {
    packed.k_offsets = at::tensor({int64_t{0}, middle, int64_t{6}}, at::kLong);
    fails_with("ascending", [&] { attention_lean(x.q, x.k, x.v, 4, packed); });
  }
}

// ---- how copies are cut into rows

/// The copy as cudaMemcpy2D does it, on the host.
void expect_copied(const at::Tensor& source, int64_t groups) {
  at::Tensor target = at::empty_like(source, at::MemoryFormat::Preserve);
  target.fill_(-1);
  std::vector<vggt::CopyDim> dims;
  for (int64_t i = 0; i < source.dim(); ++i)
    dims.push_back({source.size(i), target.stride(i), source.stride(i)});
  const vggt::RowCopy copy = vggt::plan_row_copy(dims);
  EXPECT_EQ(static_cast<int64_t>(copy.groups.size()), groups) << source.strides();
  EXPECT_GE(copy.to_pitch, copy.width);
  EXPECT_GE(copy.from_pitch, copy.width);
  for (const auto& [to, from] : copy.groups) {
    for (int64_t row = 0; row < copy.rows; ++row)
      std::memcpy(target.mutable_data_ptr<float>() + to + row * copy.to_pitch,
                  source.const_data_ptr<float>() + from + row * copy.from_pitch, copy.width * sizeof(float));
  }
  EXPECT_TRUE(at::equal(target, source)) << source.strides();
}

TEST(RowCopy, CopiesAnyLayoutInFewPieces) {
  const Qkv dense = random_qkv(2, 3, 20, 20, 8, on(at::kFloat)),
            model = model_qkv(2, 3, 20, 8, on(at::kFloat));
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 20}, {3, 9}, {19, 1}}) {
    expect_copied(dense.k.narrow(2, first, count), 1);
    expect_copied(model.k.narrow(2, first, count), count == 9 ? 2 : 1);  // per sequence
    expect_copied(dense.k.transpose(1, 2).contiguous().transpose(1, 2).narrow(2, first, count), 1);
  }
  expect_copied(dense.k.narrow(3, 2, 3), 1);
  expect_copied(dense.k.narrow(0, 0, 1).expand({4, 3, 20, 8}), 4);
}

TEST(RowCopy, NothingIsCopiedFromNothing) {
  EXPECT_TRUE(vggt::plan_row_copy({{0, 8, 8}, {8, 1, 1}}).groups.empty());
}

// ---- on a GPU

#ifdef VGGT_CUDA
struct Place {
  const char* name;
  at::Tensor (*put)(const at::Tensor&);
};

class LeanCuda : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  }
  static Qkv put(const Qkv& x) { return {x.q.to(at::kCUDA), GetParam().put(x.k), GetParam().put(x.v)}; }
};

TEST_P(LeanCuda, EqualsAttentionForEveryVariantAndChunk) {
  struct Case {
    AttentionVariant variant;
    at::ScalarType type;
    vggt::CudaElement element;
  };
  const vggt::CudaDevice device = vggt::cuda_device(at::Device("cuda:0"));
  for (const Case& c : {Case{AttentionVariant::sdpa, at::kFloat, vggt::CudaElement::fp32},
                        Case{AttentionVariant::strict, at::kFloat, vggt::CudaElement::fp32},
                        Case{AttentionVariant::split, at::kFloat, vggt::CudaElement::fp32},
                        Case{AttentionVariant::turbo, at::kFloat, vggt::CudaElement::fp32},
                        Case{AttentionVariant::half, at::kBFloat16, vggt::CudaElement::bf16},
                        Case{AttentionVariant::half, at::kHalf, vggt::CudaElement::fp16}}) {
    if (!variant_refusal(c.variant, c.element, 64, device).empty()) continue;
    const Qkv x = model_qkv(2, 3, kKeys, 64, on(c.type)), placed = put(x);
    const auto options = ask(AttentionWant::output_lse, c.variant);
    const AttentionResult whole = attention(x.q.to(at::kCUDA), x.k.to(at::kCUDA), x.v.to(at::kCUDA), options);
    const double theirs = norm_error_of(whole.out, exact(x).out);
    const double lse_tolerance = c.variant == AttentionVariant::turbo ? 2e-4 : 4e-6;
    for (int64_t eta : kEtas) {
      const AttentionResult got = attention_lean(placed.q, placed.k, placed.v, eta, options);
      EXPECT_TRUE(got.out.is_cuda());
      EXPECT_LE(norm_error_of(got.out, exact(x).out), 2 * theirs + tolerance(c.type, eta))
          << static_cast<int>(c.variant) << ", eta " << eta;
      EXPECT_LE(error_of(got.lse, whole.lse), lse_tolerance)
          << static_cast<int>(c.variant) << ", eta " << eta;
    }
  }
}

TEST_P(LeanCuda, BuffersAreReusedInTurn) {
  // Chunks large enough that a copy which did not wait would overwrite one in use.
  const Qkv x = random_qkv(1, 4, 512, 40000, 64, on(at::kFloat));
  const Qkv placed = put(x);
  LeanTimes times;
  const AttentionResult got = attention_lean(placed.q, placed.k, placed.v, 3000, {}, &times);
  EXPECT_LE(norm_error_of(got.out, exact(x).out), 2e-6);
  EXPECT_GT(times.total_ms, 0);
  EXPECT_NEAR(times.compute_ms + times.wait_ms, times.total_ms, 1e-6 * times.total_ms);
  EXPECT_GE(times.overlap_efficiency(), 0);
  EXPECT_LE(times.overlap_efficiency(), 1);
  EXPECT_EQ(times.copy_ms > 0, placed.k.is_cpu());
}

TEST_P(LeanCuda, ManyQueriesGoSomeAfterTheOthers) {
  const Qkv x = random_qkv(1, 2, 70'000, 300, 64, on(at::kFloat)), placed = put(x);
  const AttentionResult got = attention_lean(placed.q, placed.k, placed.v, 90);
  EXPECT_LE(norm_error_of(got.out, exact(x).out), 2e-6);
}

TEST_P(LeanCuda, TheHostsMemoryIsReadOnReturn) {
  const Qkv x = random_qkv(1, 2, 64, 20000, 64, on(at::kFloat));
  const Qkv placed = put(x);
  const AttentionResult got = attention_lean(placed.q, placed.k, placed.v, 5000);
  if (placed.k.is_cpu()) placed.k.fill_(7), placed.v.fill_(7);
  EXPECT_LE(norm_error_of(got.out, exact(x).out), 2e-6);
}

TEST_P(LeanCuda, EmptySizes) {
  for (auto [nq, nk] : {std::pair<int64_t, int64_t>{4, 0}, {0, 4}}) {
    const Qkv x = random_qkv(2, 2, nq, nk, 64, on(at::kFloat)), placed = put(x);
    const AttentionResult got = attention_lean(placed.q, placed.k, placed.v, 3);
    EXPECT_EQ(got.out.sizes(), x.q.sizes());
    EXPECT_TRUE((got.out == 0).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Keys, LeanCuda,
    ::testing::Values(Place{"pinned", [](const at::Tensor& x) { return x.clone().pin_memory(); }},
                      Place{"pinned_strided",
                            [](const at::Tensor& x) {
                              return at::cat({x, x}, 3).pin_memory().narrow(3, 0, x.size(3));
                            }},
                      Place{"pageable", [](const at::Tensor& x) { return x.clone(); }},
                      Place{"resident", [](const at::Tensor& x) { return x.to(at::kCUDA); }}),
    [](const auto& info) { return std::string(info.param.name); });
#endif

}  // namespace
