// Linear layers by split products on a GPU, held to float64 and to cuBLAS in fp32.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "attention/cuda/cuda.h"
#include "model/layers/joined_gemm.h"
#include "model/layers/joined_linear.h"
#include "model/layers/linear.h"
#include "model/layers/split_gemm.h"
#include "model/state/held_part.h"

namespace {

using namespace vggt;

// Of what fp16 pairs and the tensor cores' sums lose where fp32's own sums are too short to lose more.
constexpr double kFloor = 2.5e-7;

double error_of(const at::Tensor& y, const at::Tensor& exact) {
  return ((y.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

class LinearCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    if (!cuda_device(at::Device(at::kCUDA, 0)).wgmma) GTEST_SKIP() << "no Hopper, or no build for it";
    at::manual_seed(7);
  }

  static at::Tensor normal(int64_t rows, int64_t columns) {
    return at::randn({rows, columns}, at::device(at::kCUDA).dtype(at::kFloat));
  }

  static void expect_exact(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, bool gelu = false) {
    const at::Tensor wide = x.to(at::kDouble);
    const at::Tensor exact = at::linear(gelu ? at::gelu(wide) : wide, w.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor y = linear_split(x, split_weight(w), b, gelu);
    const double bound = error_of(at::linear(gelu ? at::gelu(x) : x, w, b), exact);
    EXPECT_LE(error_of(y, exact), std::max(bound, kFloor)) << "cuBLAS " << bound;
  }
};

TEST_F(LinearCuda, RaggedSizes) {
  for (int rows : {1, 7, 127, 128, 129, 256, 257, 1041}) {
    for (int out : {8, 120, 128, 136, 520}) {
      for (int in : {8, 32, 40, 64, 72, 128, 136, 1000}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out);
        expect_exact(normal(rows, in), normal(out, in), normal(1, out)[0]);
      }
    }
  }
}

TEST_F(LinearCuda, ModelSizesAndSeveralPieces) {
  for (auto [rows, in, out] : {std::tuple{4164, 1024, 3072},
                               {4164, 1024, 1024},
                               {4164, 1024, 4096},
                               {4164, 4096, 1024},
                               {70000, 1024, 256},
                               {17000, 4096, 256}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out);
    expect_exact(normal(rows, in), normal(out, in), normal(1, out)[0]);
  }
}

TEST_F(LinearCuda, AnyMagnitude) {
  for (double of_x : {1e-20, 1e-10, 1e-3, 1.0, 1e4, 1e20}) {
    for (double of_w : {1e-15, 1.0, 1e4}) {
      SCOPED_TRACE(testing::Message() << of_x << " " << of_w);
      expect_exact(normal(300, 512) * of_x, normal(256, 512) * of_w, normal(1, 256)[0] * of_x * of_w);
    }
  }
}

TEST_F(LinearCuda, RowsOfAllMagnitudesAtOnce) {
  const at::Tensor up = at::logspace(-30, 10, 300, 10, at::device(at::kCUDA).dtype(at::kFloat)).unsqueeze(1);
  const at::Tensor x = normal(300, 512) * up, w = normal(256, 512), b = at::zeros({256}, x.options());
  const at::Tensor exact = at::linear(x.to(at::kDouble), w.to(at::kDouble));
  const at::Tensor y = linear_split(x, split_weight(w), b).to(at::kDouble);
  EXPECT_LE(((y - exact).norm(2, 1) / exact.norm(2, 1)).max().item<double>(), 1e-6);
}

TEST_F(LinearCuda, StridedRowsAndGelu) {
  const at::Tensor wide = normal(500, 1100), w = normal(264, 512), b = normal(1, 264)[0];
  for (int64_t first : {0, 4, 5}) {
    expect_exact(wide.narrow(1, first, 512), w, b);
    expect_exact(wide.narrow(1, first, 512), w, b, true);
  }
  expect_exact(wide.t().narrow(1, 0, 256), normal(264, 256), b);
  const at::Tensor batch = normal(6, 7 * 512).view({6, 7, 512});
  const at::Tensor y = linear_split(batch, split_weight(w), b);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({6, 7, 264}));
  EXPECT_LE(error_of(y, at::linear(batch.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble))), 1e-6);
}

TEST_F(LinearCuda, WhatIsNotFiniteStaysInItsRow) {
  for (bool gelu : {false, true}) {
    at::Tensor x = normal(600, 512);
    const at::Tensor w = normal(256, 512), b = normal(1, 256)[0], clean = x.clone();
    x[3][100] = NAN;
    x[130][0] = INFINITY;
    x[599][511] = -INFINITY;
    const at::Tensor y = linear_split(x, split_weight(w), b, gelu);
    const at::Tensor expected = at::linear(gelu ? at::gelu(x) : x, w, b);
    EXPECT_TRUE(at::equal(y.isnan(), expected.isnan()));
    EXPECT_TRUE(at::equal(y.isposinf(), expected.isposinf()));
    EXPECT_TRUE(at::equal(y.isneginf(), expected.isneginf()));
    const at::Tensor same = linear_split(clean, split_weight(w), b, gelu);
    for (int64_t row : {0, 2, 4, 129, 131, 598}) EXPECT_TRUE(at::equal(y[row], same[row])) << row;
  }
  EXPECT_FALSE(split_weight(normal(8, 8) / 0).finite);
}

TEST_F(LinearCuda, AWeightFromTheHostIsAskedOnce) {
  const at::Tensor x = normal(600, 512), w = normal(256, 512), b = normal(1, 256)[0];
  std::map<std::string, at::Tensor> tensors = {
      {"a.weight", w.cpu()}, {"a.bias", b.cpu()}, {"b.weight", w.cpu()}, {"b.bias", b.cpu()}};
  tensors["b.weight"][3][100] = INFINITY;
  TensorSource source;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device device) {
    return tensors.at(name).to(device, type);
  };
  Binder bind(&source, {at::kFloat, at::kFloat}, at::Device(at::kCUDA, 0), /*on_host=*/true);
  const HeldPart<Linear> a(bind, [](Binder& of) { return Linear(of, "a", 512, 256); });
  const HeldPart<Linear> with_one(bind, [](Binder& of) { return Linear(of, "b", 512, 256); });
  EXPECT_TRUE(at::equal((*a.open())(x), linear_split(x, split_weight(w), b)));
  EXPECT_TRUE(at::equal((*a.open())(x), linear_split(x, split_weight(w, /*known_finite=*/true), b)));
  EXPECT_TRUE(a.open()->splits());
  EXPECT_FALSE(with_one.open()->splits());  // its values stay
}

TEST_F(LinearCuda, OfPartsAlone) {
  const Linear layer(normal(256, 512), normal(1, 256)[0], {at::kFloat, at::kFloat});
  at::Tensor x = normal(600, 512);
  ProductRows rows = layer.room(600, x);
  ASSERT_TRUE(rows.split());
  split_rows_into(rows.parts, x);
  at::Tensor y = at::empty({600, 256}, x.options());
  layer.write(y, rows);
  EXPECT_TRUE(at::equal(y, layer(x)));
  x[3][100] = INFINITY;
  split_rows_into(rows.parts, x);
  at::Tensor with_one = at::empty_like(y);
  layer.write(with_one, rows);
  EXPECT_TRUE(with_one[3].isnan().all().item<bool>());
  with_one[3] = y[3];
  EXPECT_TRUE(at::equal(with_one, y));
  ProductRows few = rows.first(5);
  split_rows_into(few.parts, x.narrow(0, 200, 5));
  at::Tensor of_few = at::empty({5, 256}, x.options());
  layer.write(of_few, few);
  EXPECT_TRUE(at::equal(of_few, y.narrow(0, 200, 5)));
}

TEST_F(LinearCuda, PartsTakeThePlaceOfTheValuesFromTheStart) {
  const at::Tensor x = normal(600, 512), w = normal(256, 512), b = normal(1, 256)[0];
  const ComputeKind kind{at::kFloat, at::kFloat};
  const Linear layer(w.clone(), b, kind);
  EXPECT_FALSE(layer.weight.defined());
  const at::Tensor all = layer(x);
  EXPECT_TRUE(at::equal(all, linear_split(x, split_weight(w), b)));
  EXPECT_TRUE(at::equal(layer(x.narrow(0, 0, 3)), all.narrow(0, 0, 3)));
  at::Tensor written = at::full({600, 256}, NAN, x.options()), part = written.narrow(0, 100, 300);
  layer.write(part, x.narrow(0, 100, 300));
  EXPECT_TRUE(at::equal(part, all.narrow(0, 100, 300)));
  EXPECT_TRUE(written.narrow(0, 0, 100).isnan().all().item<bool>());
  EXPECT_TRUE(written.narrow(0, 400, 200).isnan().all().item<bool>());
}

TEST_F(LinearCuda, ValuesStayWherePartsCannotBeOrDoNotPay) {
  const at::Tensor x = normal(600, 512), w = normal(256, 512), b = normal(1, 256)[0];
  const ComputeKind kind{at::kFloat, at::kFloat};
  ComputeKind few = kind, tf32 = kind;
  few.few_rows = true;
  tf32.tf32_products = true;
  for (const Linear& layer : {Linear(w / 0, b, kind), Linear(w, b, few), Linear(w, b, tf32)}) {
    EXPECT_TRUE(layer.weight.defined());
    EXPECT_FALSE(layer.parts.memory.defined());
  }
  EXPECT_TRUE(at::equal(Linear(w, b, few)(x), at::linear(x, w, b)));
}

TEST_F(LinearCuda, AProductThatIsNotWhatTheProcessSetIsRefused) {
  const at::Tensor x = normal(600, 512), w = normal(256, 512), b = normal(1, 256)[0];
  ComputeKind kind{at::kFloat, at::kFloat};
  kind.few_rows = true;
  const Linear exact(w, b, kind);
  kind.tf32_products = true;
  const Linear tf32(w, b, kind);
  exact(x);
  EXPECT_THROW(tf32(x), c10::Error);
  at::globalContext().setAllowTF32CuBLAS(true);
  EXPECT_THROW(exact(x), c10::Error);
  tf32(x);
  at::globalContext().setAllowTF32CuBLAS(false);
}

TEST_F(LinearCuda, WritesNothingBesideItsRows) {
  constexpr int kRows = 131, kIn = 200, kOut = 136, kGuard = 4096;
  const at::Tensor x = normal(kRows, kIn), b = normal(1, kOut)[0];
  const SplitWeight w = split_weight(normal(kOut, kIn));
  const at::Tensor out = at::full({kGuard + kRows * kOut + kGuard}, 12345.0f, x.options());
  const at::Tensor memory =
      at::full({split_matrix_bytes(kRows, kIn) + kGuard}, 77, x.options().dtype(at::kByte));
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  for (int blocks : {1, 2}) {
    SplitGemm gemm;
    gemm.x = split_matrix(kRows, kIn, memory.mutable_data_ptr());
    gemm.weight = split_matrix(kOut, kIn, w.memory.mutable_data_ptr());
    gemm.bias = b.const_data_ptr<float>();
    gemm.out = out.mutable_data_ptr<float>() + kGuard;
    ASSERT_EQ(split_rows({x.const_data_ptr<float>(), kIn}, gemm.x, stream), cudaSuccess);
    ASSERT_EQ(launch_split_gemm_sm90(gemm, blocks, stream), cudaSuccess);
    EXPECT_TRUE((out.narrow(0, 0, kGuard) == 12345).all().item<bool>());
    EXPECT_TRUE((out.narrow(0, out.numel() - kGuard, kGuard) == 12345).all().item<bool>());
    EXPECT_TRUE((memory.narrow(0, memory.numel() - kGuard, kGuard) == 77).all().item<bool>());
  }
}

TEST_F(LinearCuda, NoRowsAreNoRows) {
  const at::Tensor w = normal(256, 256);
  EXPECT_EQ(linear_split(normal(0, 256), split_weight(w), w[0]).sizes(), at::IntArrayRef({0, 256}));
}

/// Rows that lie in matrices of so many columns each.
struct JoinedCase {
  at::ScalarType type;
  std::vector<int64_t> columns;
  int64_t out;
  bool joins = true;  // without a copy
};

class JoinedLinearCuda : public LinearCuda, public testing::WithParamInterface<JoinedCase> {};

TEST_P(JoinedLinearCuda, IsTheProductOfTheWholeMatrix) {
  const auto& [type, columns, out, joins] = GetParam();
  const int64_t in = std::accumulate(columns.begin(), columns.end(), int64_t{0});
  const at::Tensor weight = at::randn({out, in}, at::device(at::kCUDA)).to(type) * 0.05;
  const at::Tensor bias = normal(1, out)[0].to(type);
  const Linear layer(weight, bias, ComputeKind{type, at::kFloat});
  for (const int64_t rows : {1, 7, 127, 128, 257, 1041, 70'000}) {
    if (rows * in > 80'000'000) continue;
    SCOPED_TRACE(rows);
    const at::Tensor whole = normal(rows, in).to(type);
    std::vector<at::Tensor> parts;
    int64_t first = 0;
    for (const int64_t own : columns) {
      parts.push_back(whole.narrow(1, first, own).contiguous());
      first += own;
    }
    const int64_t multiple = type == at::kFloat ? 4 : kJoinedColumns;
    EXPECT_EQ(joined_rows(parts, multiple) && out % 8 == 0, joins);
    at::Tensor y = at::full({rows, out}, std::nan(""), whole.options());
    layer.write_joined(y, parts);
    const at::Tensor exact = at::linear(whole.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
    const double bound = error_of(at::linear(whole, weight, bias), exact);
    EXPECT_LE(error_of(y, exact), std::max(1.02 * bound, kFloor)) << "cuBLAS " << bound;
    if (rows < 2) continue;
    std::vector<at::Tensor> fewer;  // rows of larger matrices, as a rank's own are
    for (const at::Tensor& part : parts) fewer.push_back(part.narrow(0, 1, rows - 1));
    at::Tensor below = at::empty({rows - 1, out}, whole.options());
    layer.write_joined(below, fewer);
    const double below_bound =
        error_of(at::linear(whole.narrow(0, 1, rows - 1), weight, bias), exact.narrow(0, 1, rows - 1));
    EXPECT_LE(error_of(below, exact.narrow(0, 1, rows - 1)), std::max(1.02 * below_bound, kFloor));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, JoinedLinearCuda,
    testing::Values(JoinedCase{at::kBFloat16, {512, 512}, 1024}, JoinedCase{at::kHalf, {512, 512}, 1024},
                    JoinedCase{at::kFloat, {512, 512}, 1024},
                    JoinedCase{at::kBFloat16, {384, 320, 320}, 1024},
                    JoinedCase{at::kFloat, {384, 320, 320}, 1000},
                    JoinedCase{at::kBFloat16, std::vector<int64_t>(16, 64), 264},
                    JoinedCase{at::kFloat, std::vector<int64_t>(16, 64), 264},
                    JoinedCase{at::kBFloat16, {64, 0, 128}, 136}, JoinedCase{at::kHalf, {64, 0, 128}, 8},
                    JoinedCase{at::kBFloat16, {100, 28}, 256, false},  // joined by a copy, as those below
                    JoinedCase{at::kBFloat16, {64, 64}, 257, false},
                    JoinedCase{at::kFloat, {30, 34}, 256, false},
                    JoinedCase{at::kDouble, {64, 60}, 64, false},
                    JoinedCase{at::kBFloat16, std::vector<int64_t>(17, 64), 256, false}),
    [](const auto& info) { return "case_" + std::to_string(info.index); });

// A row that fp16 pairs cannot hold is computed again from where it lies.
TEST_F(LinearCuda, JoinedRowsThatAreNotFinite) {
  const at::Tensor weight = normal(256, 512), bias = normal(1, 256)[0];
  at::Tensor whole = normal(300, 512);
  whole[3][300] = std::numeric_limits<float>::infinity();
  whole[7][2] = std::nan("");
  const Linear layer(weight, bias, ComputeKind{at::kFloat, at::kFloat});
  ASSERT_TRUE(layer.splits());
  at::Tensor y = at::empty({300, 256}, whole.options());
  layer.write_joined(y, {whole.narrow(1, 0, 256).contiguous(), whole.narrow(1, 256, 256).contiguous()});
  const at::Tensor expected = at::linear(whole, weight, bias);
  EXPECT_TRUE(y[3].equal(expected[3]));  // infinities of both signs
  EXPECT_TRUE(y[7].isnan().all().item<bool>());
  EXPECT_TRUE(y.narrow(0, 8, 292).isfinite().all().item<bool>());
}

}  // namespace
