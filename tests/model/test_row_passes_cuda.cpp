// The row-wise passes of a block on a GPU, held to float64 and to LibTorch's operations.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "model/layers/rope.h"
#include "model/layers/rope_params.h"
#include "model/layers/row_passes.h"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"

namespace vggt {
namespace {

// A step of a number's own type: what one rounding may cost, whichever side does it.
double step_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0x1p-24;
}

double error_of(const at::Tensor& y, const at::Tensor& exact) {
  return ((y.to(at::kDouble) - exact).norm() / exact.norm().clamp_min(1e-300)).item<double>();
}

LayerNorm make_norm(int64_t columns, double eps = 1e-6) {
  Binder names(nullptr, {at::kFloat, at::kFloat}, at::kCUDA);
  LayerNorm norm(names, "norm", columns, eps);
  norm.weight = 1 + 0.3 * at::randn({columns}, at::device(at::kCUDA).dtype(at::kFloat));
  norm.bias = 0.3 * at::randn({columns}, at::device(at::kCUDA).dtype(at::kFloat));
  return norm;
}

at::Tensor exact_norm(const at::Tensor& rows, const LayerNorm& norm) {
  return at::layer_norm(rows.to(at::kDouble), norm.weight.sizes(), norm.weight.to(at::kDouble),
                        norm.bias.to(at::kDouble), norm.eps);
}

class RowPassesCuda : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    at::manual_seed(11);
    at::globalContext().setAllowTF32CuBLAS(false);
  }

  static at::ScalarType type() { return std::get<0>(GetParam()); }
  static int64_t columns() { return std::get<1>(GetParam()); }
  static at::Tensor normal(int64_t rows) {
    return at::randn({rows, columns()}, at::device(at::kCUDA).dtype(at::kFloat));
  }
  /// Room with sentinels before and behind.
  static at::Tensor room(int64_t rows) {
    return at::full({rows + 16, columns()}, 77, at::device(at::kCUDA).dtype(type()));
  }
  static void expect_sentinels(const at::Tensor& room) {
    EXPECT_TRUE((room.narrow(0, 0, 8) == 77).all().item<bool>());
    EXPECT_TRUE((room.narrow(0, room.size(0) - 8, 8) == 77).all().item<bool>());
  }
  /// At most twice LibTorch's error at this precision, plus a rounding.
  static void expect_near(const at::Tensor& y, const at::Tensor& libtorch, const at::Tensor& exact) {
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_LE(error_of(y, exact), 2 * error_of(libtorch.to(type()), exact) + 0x1p-24);
  }
};

TEST_P(RowPassesCuda, NormsAreLayerNorms) {
  const LayerNorm norm = make_norm(columns());
  for (int64_t rows : {1, 7, 8, 9, 1041}) {
    for (double shift : {0.0, 30.0}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, shifted by " << shift);
      const at::Tensor x = normal(rows) * at::rand({rows, 1}, at::device(at::kCUDA)) * 4 + shift;
      at::Tensor memory = room(rows), y = memory.narrow(0, 8, rows);
      norm_rows(y, x, norm);
      expect_near(y, norm(x), exact_norm(x, norm));
      expect_sentinels(memory);
    }
  }
}

TEST_P(RowPassesCuda, UnitNormsHaveUnitLength) {
  const LayerNorm norm = make_norm(columns());
  const at::Tensor x = normal(333) * 3 + 1;
  at::Tensor memory = room(333), y = memory.narrow(0, 8, 333);
  unit_norm_rows(y, x, norm);
  const at::Tensor exact = exact_norm(x, norm), same = norm(x);
  expect_near(y, same / same.norm(2, {1}, true), exact / exact.norm(2, {1}, true));
  expect_sentinels(memory);
  LayerNorm zero = norm;
  zero.bias = at::zeros_like(norm.bias);
  unit_norm_rows(y, at::ones_like(x), zero);
  EXPECT_TRUE((y == 0).all().item<bool>());
}

TEST_P(RowPassesCuda, UnitNormsOfNamedRows) {
  const LayerNorm norm = make_norm(columns());
  const at::Tensor x = normal(100) * 3 + 1, before = x.clone();
  for (int64_t rows : {1, 9, 517}) {
    const at::Tensor row_of = at::randint(100, {rows}, at::device(at::kCUDA).dtype(at::kLong));
    at::Tensor memory = room(rows), y = memory.narrow(0, 8, rows), same = at::empty_like(y);
    unit_norm_rows(y, x, norm, &row_of);
    unit_norm_rows(same, x.index_select(0, row_of), norm);
    EXPECT_TRUE(at::equal(y, same));
    expect_sentinels(memory);
  }
  EXPECT_TRUE(at::equal(x, before));
}

TEST_P(RowPassesCuda, AdditionsAndTheNormBehindThem) {
  const LayerNorm norm = make_norm(columns());
  const at::Tensor gamma = normal(1)[0] * 0.1;
  const at::Tensor row_of = at::randint(100, {517}, at::device(at::kCUDA).dtype(at::kLong));
  for (bool merged : {false, true}) {
    SCOPED_TRACE(merged ? "merged" : "one to one");
    const at::Tensor before = normal(517), values = normal(merged ? 100 : 517).to(type());
    const at::Tensor added = merged ? values.index_select(0, row_of) : values;
    const at::Tensor sum = before.to(at::kDouble) + added.to(at::kDouble) * gamma.to(at::kDouble);
    const at::Tensor same = before.addcmul(added, gamma);
    at::Tensor all = at::cat({normal(8), before, normal(8)}), guards = all.clone();
    at::Tensor rows = all.narrow(0, 8, 517), memory = room(517), y = memory.narrow(0, 8, 517);
    add_norm_rows(y, rows, rows, {values, gamma, merged ? &row_of : nullptr}, norm);
    EXPECT_LE(error_of(rows, sum), 2 * error_of(same, sum) + 0x1p-24);
    expect_near(y, norm(same), exact_norm(rows, norm));
    expect_sentinels(memory);
    EXPECT_TRUE(at::equal(all.narrow(0, 0, 8), guards.narrow(0, 0, 8)));
    EXPECT_TRUE(at::equal(all.narrow(0, 525, 8), guards.narrow(0, 525, 8)));
    at::Tensor again = before.clone(), elsewhere = at::full_like(before, NAN),
               other_y = at::full_like(y, NAN);
    add_rows(again, again, {values, gamma, merged ? &row_of : nullptr});
    EXPECT_TRUE(at::equal(again, rows));
    add_norm_rows(other_y, elsewhere, before, {values, gamma, merged ? &row_of : nullptr}, norm);
    EXPECT_TRUE(at::equal(elsewhere, rows));
    EXPECT_TRUE(at::equal(other_y, y));
    if (merged) continue;
    at::Tensor in_place = values.clone(), third = before.clone();
    add_norm_rows(in_place, third, third, {in_place, gamma}, norm);
    EXPECT_TRUE(at::equal(in_place, y));
  }
}

/// The parts of rows, and their exponents.
std::pair<at::Tensor, at::Tensor> parts_of(const SplitRows& x) {
  const SplitMatrix matrix = matrix_of(x);
  return {
      at::from_blob(matrix.parts, {x.rows, split_width(x.columns)}, at::device(at::kCUDA).dtype(at::kHalf)),
      at::from_blob(matrix.exponents, {x.rows}, at::device(at::kCUDA).dtype(at::kInt))};
}

void expect_same_parts(const SplitRows& a, const SplitRows& b) {
  EXPECT_TRUE(at::equal(parts_of(a).first, parts_of(b).first));
  EXPECT_TRUE(at::equal(parts_of(a).second, parts_of(b).second));
}

TEST_P(RowPassesCuda, PartsAreThoseOfTheNorm) {
  if (type() != at::kFloat || columns() % 4 != 0 || columns() > kMostSplitColumns) GTEST_SKIP() << "no parts";
  const LayerNorm norm = make_norm(columns());
  const at::Tensor gamma = normal(1)[0] * 0.1;
  for (int64_t rows : {1, 7, 8, 9, 1041}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = normal(rows) * at::rand({rows, 1}, at::device(at::kCUDA)) * 4, values = normal(rows);
    at::Tensor y = at::empty_like(x), sum = at::empty_like(x), same_sum = at::empty_like(x);
    SplitRows want = room_for_split(rows, columns(), x);
    ProductRows got{{}, room_for_split(rows, columns(), x)};
    norm_rows(y, x, norm);
    split_rows_into(want, y);
    norm_rows(got, x, norm);
    expect_same_parts(got.parts, want);
    add_norm_rows(y, sum, x, {values, gamma}, norm);
    split_rows_into(want, y);
    add_norm_rows(got, same_sum, x, {values, gamma}, norm);
    EXPECT_TRUE(at::equal(sum, same_sum));
    expect_same_parts(got.parts, want);
  }
}

TEST_P(RowPassesCuda, WhatIsNotFiniteStaysInItsRow) {
  const LayerNorm norm = make_norm(columns());
  at::Tensor x = normal(64);
  x[3][0] = NAN;
  x[40][columns() - 1] = INFINITY;
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(type()));
  norm_rows(y, x, norm);
  const at::Tensor finite = y.isfinite().all(1).cpu();
  for (int64_t row = 0; row < 64; ++row) EXPECT_EQ(finite[row].item<bool>(), row != 3 && row != 40) << row;
}

TEST_P(RowPassesCuda, GeluIsExact) {
  for (int64_t rows : {1, 5, 1041}) {
    const at::Tensor x = (normal(rows) * 3).to(type());
    at::Tensor y = x.clone();
    gelu_rows_(y);
    const at::Tensor exact = at::gelu(x.to(at::kDouble));
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_LE(error_of(y, exact), 2 * error_of(at::gelu(x), exact) + 0x1p-24);
    // Where GELU is tiny an error counts by the step of the type, as LibTorch's own does.
    const at::Tensor wrong = (y.to(at::kDouble) - exact).abs() > step_of(type()) * exact.abs() + 1e-6;
    EXPECT_FALSE(wrong.any().item<bool>());
  }
}

TEST_P(RowPassesCuda, GeluOfWhatIsLargeOrNotFinite) {
  const at::Tensor values =
      at::tensor({-1e4, -60.0, -9.0, -6.5, -0.0, 0.0, 6.5, 9.0, 60.0, 1e4}, at::kDouble);
  at::Tensor x = values.repeat({8}).to(at::kCUDA).to(type());
  gelu_rows_(x);
  const at::Tensor wrong =
      (x.to(at::kDouble).cpu() - at::gelu(values.repeat({8}).to(type()).to(at::kDouble))).abs();
  EXPECT_LE((wrong / values.repeat({8}).abs().clamp_min(1)).max().item<double>(), step_of(type()));
  at::Tensor special = at::tensor({NAN, INFINITY}, at::kDouble).repeat({8}).to(at::kCUDA).to(type());
  gelu_rows_(special);
  EXPECT_TRUE(special.cpu().to(at::kDouble).view({8, 2}).select(1, 0).isnan().all().item<bool>());
  EXPECT_TRUE(special.cpu().to(at::kDouble).view({8, 2}).select(1, 1).isposinf().all().item<bool>());
}

// 1027 is no multiple of 4, 9000 more than the kernels take: LibTorch's operations then.
INSTANTIATE_TEST_SUITE_P(TypesAndWidths, RowPassesCuda,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                          testing::Values(4, 32, 384, 768, 1020, 1024, 1028, 1027, 2048, 4096,
                                                          4100, 9000)));

struct HeadShape {
  at::ScalarType type;
  int64_t heads, dim;
};

/// On the CPU.
Rope in_float64(Rope rope) {
  rope.cosine = rope.cosine.cpu().to(at::kDouble);
  rope.sine = rope.sine.cpu().to(at::kDouble);
  return rope;
}

class NormRopeCuda : public testing::TestWithParam<HeadShape> {};

TEST_P(NormRopeCuda, IsTheCpusInFloat64) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(12);
  const auto [type, A, D] = GetParam();
  const int64_t rows = 3, columns = 5, special = 5, P = special + rows * columns, T = 7 * P;
  const auto state = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::TensorOptions gpu = at::device(at::kCUDA).dtype(state);
  const Rope rope(rows, columns, special, D, 100, gpu);
  const Rope exact_rope = in_float64(rope);
  const at::Tensor weight = 1 + 0.3 * at::randn({D}, gpu), bias = 0.3 * at::randn({D}, gpu);
  const at::Tensor before = (at::randn({T, 3, A, D}, gpu) * 2 + 0.5).to(type);
  for (int64_t part : {0, 1}) {
    at::Tensor qkv = before.clone(), alone = before.select(1, part).contiguous();
    norm_rope_(qkv.select(1, part), weight, bias, 1e-5, rope);
    norm_rope_(alone, weight, bias, 1e-5, rope);
    at::Tensor exact = before.select(1, part).cpu().to(at::kDouble).contiguous();
    norm_rope_(exact, weight.cpu().to(at::kDouble), bias.cpu().to(at::kDouble), 1e-5, exact_rope);
    const at::Tensor got = qkv.select(1, part).cpu();
    EXPECT_TRUE(at::equal(alone.cpu(), got));
    const double bound = type == at::kDouble  ? 1e-13
                         : type == at::kFloat ? 1e-6
                                              : error_of(exact.to(type), exact);
    EXPECT_LE(error_of(got, exact), 1.1 * bound);
    for (int64_t other = 0; other < 3; ++other) {
      if (other == part) continue;
      EXPECT_TRUE(at::equal(qkv.select(1, other), before.select(1, other))) << other;
    }
  }
}

/// The numbers that parts [2,B,A,N,D] with these bounds [B,A] stand for, in fp64 on the CPU.
at::Tensor joined(const at::Tensor& parts, const at::Tensor& bounds) {
  const at::Tensor exponents = 14 - bounds.cpu().to(at::kDouble).log2().floor();  // [B,A]
  return parts.cpu().to(at::kDouble).sum(0) / exponents.exp2().unsqueeze(-1).unsqueeze(-1);
}

TEST(NormRopeParts, AreItsResults) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(14);
  const int64_t rows = 3, columns = 5, special = 5, P = special + rows * columns, A = 6, B = 3, N = 2 * P;
  const at::TensorOptions gpu = at::device(at::kCUDA).dtype(at::kFloat);
  for (const int64_t D : {64, 128}) {
    const Rope rope(rows, columns, special, D, 100, gpu);
    const at::Tensor weight = 0.3 * at::randn({D}, gpu), bias = 0.5 * at::randn({D}, gpu);
    ASSERT_TRUE(writes_parts(weight, bias, rope));
    EXPECT_FALSE(writes_parts(weight.narrow(0, 0, D / 2), bias.narrow(0, 0, D / 2), rope) && D == 64);
    for (const float size : {1e-30f, 1.0f, 1e20f}) {  // of what the norm makes
      const at::Tensor before = at::randn({B * N, 3, A, D}, gpu);
      const auto room = [&] { return at::full({2, B, A, N, D}, std::nan(""), gpu.dtype(at::kHalf)); };
      const QkParts parts{room(), room(), at::full({2, B, A}, -1, gpu), at::zeros({2, B, A}, gpu)};
      for (const int64_t which : {0, 1}) {
        const at::Tensor expected = before.select(1, which).clone(), x = before.clone().select(1, which);
        norm_rope_(expected, weight * size, bias * size, 1e-5, rope);
        for (int64_t first = 0; first < B * N; first += 3 * P) {  // pieces that end within a sequence
          const int64_t count = std::min(3 * P, B * N - first);
          norm_rope_(x.narrow(0, first, count), weight * size, bias * size, 1e-5, rope,
                     PartsPlace{parts, which, first});
        }
        EXPECT_TRUE(at::equal(x, expected));
        const at::Tensor heads =
            expected.cpu().to(at::kDouble).view({B, N, A, D}).transpose(1, 2);  // [B,A,N,D]
        const at::Tensor bounds = parts.bounds[which].cpu().to(at::kDouble),
                         largest = parts.largest[which].cpu().to(at::kDouble);
        EXPECT_TRUE(at::equal(largest, heads.abs().amax({2, 3}))) << D << ", " << size;
        EXPECT_TRUE((largest <= bounds).all().item<bool>());
        EXPECT_TRUE((bounds <= 40 * largest + 1e-29).all().item<bool>());
        const at::Tensor off = (joined(which == 0 ? parts.q : parts.k, bounds) - heads).abs();
        const at::Tensor may =
            at::maximum(0x1p-22 * heads.abs(), 0x1p-39 * bounds.unsqueeze(-1).unsqueeze(-1));
        EXPECT_TRUE((off <= may).all().item<bool>()) << D << ", " << size;
      }
    }
  }
}

TEST(NormRopeParts, OfNumbersThatAreNotFiniteHaveAnInfiniteLargest) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  const int64_t A = 4, N = 9, D = 64;
  const at::TensorOptions gpu = at::device(at::kCUDA).dtype(at::kFloat);
  const Rope rope(2, 2, 5, D, 100, gpu);
  for (const double bad : {std::nan(""), double{INFINITY}}) {
    const at::Tensor x = at::randn({N, A, D}, gpu);
    x[3][2][7] = bad;
    const auto room = [&] { return at::empty({2, 1, A, N, D}, gpu.dtype(at::kHalf)); };
    const QkParts parts{room(), room(), at::empty({2, 1, A}, gpu), at::zeros({2, 1, A}, gpu)};
    norm_rope_(x, at::ones({D}, gpu), at::zeros({D}, gpu), 1e-5, rope, PartsPlace{parts, 1, 0});
    for (int64_t head = 0; head < A; ++head)
      EXPECT_EQ(std::isinf(parts.largest[1][0][head].item<float>()), head == 2) << bad << ", " << head;
  }
}

TEST(NormRopeParts, AreRefusedOnACpu) {
  const Rope rope(2, 2, 5, 64, 100, at::kFloat);
  const at::Tensor room = at::empty({2, 1, 4, 9, 64}, at::kHalf), one = at::ones({64});
  const QkParts parts{room, room, at::empty({2, 1, 4}), at::zeros({2, 1, 4})};
  EXPECT_THROW(norm_rope_(at::randn({9, 4, 64}), one, one, 1e-5, rope, PartsPlace{parts, 0, 0}), c10::Error);
}

/// Rows of 0, 1, 2, ... members, and some that all warps of a block share.
std::vector<int64_t> lengths_of_rows() {
  std::vector<int64_t> lengths{0, 1, 1, 2, 3, 0, 5, 31, 32, 33, 63, 64, 65, 66, 128, 1};
  for (int64_t i = 0; i < 30; ++i) lengths.push_back(1 + i % 4);
  lengths.insert(lengths.end(), {500, 1, 3000, 700, 2});
  return lengths;
}

TEST_P(NormRopeCuda, MeansAreThoseInFloat64) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(13);
  const auto [type, A, D] = GetParam();
  const int64_t rows = 3, columns = 5, special = 5, T = 7 * (special + rows * columns);
  const auto state = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::TensorOptions gpu = at::device(at::kCUDA).dtype(state);
  const Rope rope(rows, columns, special, D, 100, gpu);
  const Rope exact_rope = in_float64(rope);
  const at::Tensor weight = 1 + 0.3 * at::randn({D}, gpu), bias = 0.3 * at::randn({D}, gpu);
  at::Tensor x = (at::randn({T, A, D}, gpu) * 2 + 0.5).to(type);
  const at::Tensor before = x.cpu().to(at::kDouble);
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths_of_rows()) offsets.push_back(offsets.back() + length);
  const auto M = static_cast<int64_t>(offsets.size()) - 1;
  const at::Tensor members = at::randint(T, {offsets.back()}, at::kLong),
                   starts = at::tensor(offsets, at::kLong);
  at::Tensor exact = at::empty({M, A, D}, at::kDouble);
  norm_rope_mean_into(exact, before, weight.cpu().to(at::kDouble), bias.cpu().to(at::kDouble), 1e-5,
                      exact_rope, members, starts);
  // The middle third of rows of three, between rows of sentinels.
  at::Tensor all = at::full({M + 2, 3, A, D}, 77, x.options());
  at::Tensor means = all.narrow(0, 1, M).select(1, 1), alone = at::empty({M, A, D}, x.options()),
             there = at::empty({M, A, D}, x.options().device(at::kCPU));
  for (at::Tensor* to : {&means, &alone, &there}) {
    at::Tensor copy = x.clone();
    norm_rope_mean_into(*to, copy, weight, bias, 1e-5, rope, members.to(at::kCUDA), starts.to(at::kCUDA));
  }
  EXPECT_TRUE(at::equal(means, alone));
  const double step = error_of(exact.to(type), exact);
  const double bound = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-6 : step;
  // Elsewhere than in the kernel what is averaged has been rounded too.
  EXPECT_LE(error_of(alone.cpu(), exact), (norm_rope_mean_takes(D) ? 1.1 : 3) * bound);
  EXPECT_LE(error_of(there, exact), 3 * bound);
  EXPECT_TRUE((alone.cpu()[0] == 0).all().item<bool>());
  all.narrow(0, 1, M).select(1, 1).fill_(77);
  EXPECT_TRUE((all == 77).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(TypesAndHeads, NormRopeCuda,
                         testing::Values(HeadShape{at::kBFloat16, 16, 64}, HeadShape{at::kBFloat16, 6, 64},
                                         HeadShape{at::kBFloat16, 3, 32}, HeadShape{at::kBFloat16, 5, 128},
                                         HeadShape{at::kBFloat16, 2, 256}, HeadShape{at::kBFloat16, 2, 24},
                                         HeadShape{at::kHalf, 16, 64}, HeadShape{at::kHalf, 1, 64},
                                         HeadShape{at::kFloat, 16, 64}, HeadShape{at::kFloat, 3, 16},
                                         HeadShape{at::kFloat, 7, 32}, HeadShape{at::kFloat, 3, 128},
                                         HeadShape{at::kFloat, 4, 12}, HeadShape{at::kDouble, 3, 64},
                                         HeadShape{at::kDouble, 4, 16}));

}  // namespace
}  // namespace vggt
