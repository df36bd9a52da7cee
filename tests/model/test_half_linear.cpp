// Linear layers in bf16 and fp16 with GELU or the residual in their products, held to float64 and to
// LibTorch.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "attention/cuda/cuda.h"
#include "model/layers/half_linear.h"

namespace vggt {
namespace {

double error_of(const at::Tensor& y, const at::Tensor& exact) {
  return ((y.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

class HalfLinear : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    if (!cuda_device(at::Device(at::kCUDA, 0)).wgmma) GTEST_SKIP() << "no Hopper, or no build for it";
    at::manual_seed(7);
  }
  static at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type = GetParam()) {
    return at::randn(sizes, at::device(at::kCUDA).dtype(at::kFloat)).to(type);
  }
  struct Layer {
    at::Tensor x, weight, bias, exact;  // [M,in], [out,in], [out], [M,out] in fp64
    Layer(int64_t rows, int64_t in, int64_t out)
        : x(normal({rows, in})),
          weight(normal({out, in}) / std::sqrt(static_cast<double>(in))),
          bias(normal({out})),
          exact(at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble))) {}
  };
  /// A tensor like this one inside a larger one, and whether what lies around it is untouched.
  struct Guarded {
    at::Tensor all, inner;
    explicit Guarded(const at::Tensor& like)
        : all(at::full({like.size(0) + 16, like.size(1)}, 7, like.options())),
          inner(all.narrow(0, 8, like.size(0))) {
      inner.copy_(like);
    }
    bool untouched() const {
      return all.narrow(0, 0, 8).eq(7).all().item<bool>() &&
             all.narrow(0, all.size(0) - 8, 8).eq(7).all().item<bool>();
    }
  };

  static void expect_gelu(int64_t rows, int64_t in, int64_t out) {
    const Layer layer(rows, in, out);
    const at::Tensor exact = at::gelu(layer.exact),
                     plain = at::gelu(at::linear(layer.x, layer.weight, layer.bias));
    Guarded y(at::full_like(plain, NAN));
    linear_gelu_half(y.inner, layer.x, layer.weight, layer.bias);
    EXPECT_LE(error_of(y.inner, exact), error_of(plain, exact));
    EXPECT_TRUE(y.untouched());
  }
  static void expect_residual(int64_t rows, int64_t in, int64_t out) {
    const Layer layer(rows, in, out);
    const at::Tensor gamma = normal({out}, at::kFloat), before = normal({rows, out}, at::kFloat);
    const at::Tensor exact = before.to(at::kDouble) + gamma.to(at::kDouble) * layer.exact;
    Guarded y(before);
    linear_residual_half(y.inner, layer.x, layer.weight, layer.bias, gamma);
    EXPECT_LE(error_of(y.inner, exact), 1e-6);  // of sums in fp32
    EXPECT_TRUE(y.untouched());
  }
};

TEST_P(HalfLinear, RaggedSizes) {
  for (const int64_t rows : {1, 127, 128, 129, 257, 1041}) {
    for (const int64_t out : {8, 248, 256, 264}) {
      for (const int64_t in : {8, 64, 72, 1000}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out);
        expect_gelu(rows, in, out);
        expect_residual(rows, in, out);
      }
    }
  }
}

TEST_P(HalfLinear, SizesOfTheModel) {
  for (const auto& [rows, in, out] :
       {std::tuple{8192, 1024, 4096}, {8192, 4096, 1024}, {20000, 384, 1536}, {20000, 1024, 1024}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out);
    expect_gelu(rows, in, out);
    expect_residual(rows, in, out);
  }
}

TEST_P(HalfLinear, GeluOfEveryMagnitude) {
  // With one input of 1 a bias is the whole sum.
  const int64_t out = 4096;
  const at::Tensor one = at::ones({1, 8}, normal({1}).options()), none = at::zeros({out, 8}, one.options());
  const at::Tensor bias = at::linspace(-12, 12, out, one.options());
  at::Tensor y = at::empty({1, out}, one.options());
  linear_gelu_half(y, one, none, bias);
  const at::Tensor exact = at::gelu(bias.to(at::kDouble)), got = y[0].to(at::kDouble);
  const double step = GetParam() == at::kHalf ? 1.0 / 2048 : 1.0 / 256;  // half the last digit, relative
  EXPECT_LE(((got - exact).abs() - step * exact.abs()).max().item<double>(), 1e-6);
}

TEST_P(HalfLinear, WhatIsNotFiniteStaysInItsRow) {
  Layer layer(300, 512, 256);
  layer.x[3][100] = NAN;
  layer.x[130][0] = INFINITY;
  at::Tensor y = at::zeros({300, 256}, layer.x.options()),
             rows = at::zeros({300, 256}, at::device(at::kCUDA));
  linear_gelu_half(y, layer.x, layer.weight, layer.bias);
  linear_residual_half(rows, layer.x, layer.weight, layer.bias, at::ones({256}, rows.options()));
  const at::Tensor expected = at::linear(layer.x, layer.weight, layer.bias);
  EXPECT_TRUE(at::equal(y.isnan(), at::gelu(expected).isnan()));
  EXPECT_TRUE(at::equal(rows.isnan(), expected.isnan()));
  EXPECT_TRUE(at::equal(rows.isinf(), expected.isinf()));
}

TEST_P(HalfLinear, RepeatsBitForBit) {
  const Layer layer(5000, 1024, 1024);
  const at::Tensor gamma = normal({1024}, at::kFloat), before = normal({5000, 1024}, at::kFloat);
  at::Tensor first = before.clone(), second = before.clone();
  linear_residual_half(first, layer.x, layer.weight, layer.bias, gamma);
  linear_residual_half(second, layer.x, layer.weight, layer.bias, gamma);
  EXPECT_TRUE(at::equal(first, second));
}

TEST_P(HalfLinear, PaysForManyRowsOnly) {
  const at::Tensor weight = normal({1024, 1024});
  EXPECT_TRUE(half_linear_pays(normal({65536, 1024}), weight));
  EXPECT_FALSE(half_linear_pays(normal({1041, 1024}), weight));
  EXPECT_FALSE(half_linear_pays(normal({65536, 1024}, at::kFloat), weight.to(at::kFloat)));
  EXPECT_FALSE(half_linear_pays(normal({65536, 1028}), normal({1024, 1028})));
  EXPECT_FALSE(
      half_linear_pays(at::ones({65536, 1024}, at::kBFloat16), at::ones({1024, 1024}, at::kBFloat16)));
  at::Tensor y = normal({65536, 512});
  EXPECT_THROW(linear_gelu_half(y, normal({65536, 1024}), weight, normal({1024})), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Types, HalfLinear, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

}  // namespace
}  // namespace vggt
