// Linear layers: which products compute them, and the numbers, rows and tiles of the split ones. LayerNorm.
#include <ATen/ATen.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "model/layers/cpu_product.h"
#include "model/layers/layer_norm.h"
#include "model/layers/linear.h"
#include "model/layers/split_layout.h"

namespace {

using namespace vggt;

uint32_t bits_of(float x) {
  return std::bit_cast<uint32_t>(x);
}
float power_of_two(int k) {
  return std::bit_cast<float>(power_of_two_bits(k));
}

TEST(SplitLayout, TheLargestOfARowFillsFp16) {
  for (float x : {3.4e38f, 1e20f, 65504.0f, 1.9999f, 1.0f, 1e-10f, 2.5e-34f}) {
    const float scaled = x * power_of_two(row_exponent(bits_of(x)));
    EXPECT_GE(scaled, 16384.0f) << x;
    EXPECT_LT(scaled, 32768.0f) << x;
  }
}

TEST(SplitLayout, ScalesOfSmallRowsStayNormal) {
  for (float x : {0.0f, 1e-45f, 1e-38f, 1e-34f}) {
    EXPECT_EQ(row_exponent(bits_of(x)), 126) << x;
    EXPECT_LT(x * power_of_two(126), 32768.0f);
  }
  EXPECT_EQ(row_exponent(bits_of(INFINITY)), kNotFinite);
  EXPECT_EQ(row_exponent(bits_of(NAN) & 0x7FFFFFFF), kNotFinite);
}

TEST(SplitLayout, TwoStepsUndoAnyTwoExponents) {
  for (int a = -113; a <= 126; ++a) {
    for (int b = -113; b <= 126; ++b) {
      const float first = power_of_two(-half_exponent(a)) * power_of_two(-half_exponent(b));
      const float second = power_of_two(half_exponent(a) - a) * power_of_two(half_exponent(b) - b);
      ASSERT_TRUE(std::isnormal(first) && std::isnormal(second)) << a << " " << b;
      ASSERT_EQ(std::ilogb(first) + std::ilogb(second), -a - b);
    }
  }
}

TEST(SplitLayout, PartsHold22BitsOfANumberOr39BelowTheLargest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> mantissa(1, 2);
  for (float largest : {3e38f, 1.0f, 7e-20f, 2e-38f}) {
    const int e = row_exponent(bits_of(largest));
    for (int below = 0; below < 60; ++below) {
      const float x = std::min(largest, std::ldexp(largest * mantissa(random) / 2, -below));
      const float scaled = x * power_of_two(e);
      const c10::Half high = scaled, low = scaled - static_cast<float>(high);
      const double back =
          std::ldexp(static_cast<double>(static_cast<float>(high)) + static_cast<float>(low), -e);
      ASSERT_LE(std::abs(back - x),
                std::max(std::ldexp(double{x}, -22), std::ldexp(double{largest}, -39)) + 1e-45)
          << largest << " " << below;
    }
  }
}

TEST(SplitLayout, PartsOfARowHaveTheirOwnPlaces) {
  for (int columns : {1, 32, 33, 1024, 1032}) {
    std::set<int> places;
    for (int column = 0; column < columns; ++column) {
      const int high = split_column(column);
      places.insert({high, high + kSplitColumns});
      EXPECT_EQ(high / 64, (high + kSplitColumns) / 64);  // in the same 128 bytes
    }
    EXPECT_EQ(places.size(), 2u * columns);
    EXPECT_LT(*places.rbegin(), split_width(columns));
    EXPECT_EQ(split_width(columns) % 64, 0);
  }
}

TEST(SplitLayout, EveryTileIsTakenOnce) {
  for (int rows : {1, 7, 8, 9, 407}) {
    for (int columns : {1, 8, 32}) {
      std::set<std::pair<int, int>> seen;
      for (int item = 0; item < rows * columns; ++item) {
        const GemmTile tile = gemm_tile(item, rows, columns);
        ASSERT_TRUE(tile.row >= 0 && tile.row < rows && tile.column >= 0 && tile.column < columns);
        seen.insert({tile.row, tile.column});
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(rows) * columns);
    }
  }
}

/// The parts of rows [R,K], summed up in float64 as the tensor cores' three products.
std::pair<at::Tensor, at::Tensor> parts_of(const at::Tensor& x) {
  const at::Tensor largest = std::get<0>(x.abs().max(1, true));
  at::Tensor up = at::empty_like(largest);
  for (int64_t i = 0; i < x.size(0); ++i)
    up[i][0] = power_of_two(row_exponent(bits_of(largest[i][0].item<float>())));
  const at::Tensor scaled = x * up, high = scaled.to(at::kHalf).to(at::kFloat);
  const at::Tensor low = (scaled - high).to(at::kHalf);
  return {high.to(at::kDouble) / up, low.to(at::kDouble) / up};
}

TEST(SplitProducts, ThreeOfFp16LoseLessThanFp32Sums) {
  at::manual_seed(0);
  const at::Tensor x = at::randn({64, 1024}) * at::logspace(-20, 4, 64).unsqueeze(1),
                   w = at::randn({48, 1024});
  const at::Tensor exact = at::linear(x.to(at::kDouble), w.to(at::kDouble));
  const auto [xh, xl] = parts_of(x);
  const auto [wh, wl] = parts_of(w);
  const at::Tensor split = at::linear(xl, wh) + at::linear(xh, wl) + at::linear(xh, wh);
  for (int64_t row = 0; row < 64; ++row) {
    const double error = ((split - exact)[row].norm() / exact[row].norm()).item<double>();
    EXPECT_LT(error, 1.2e-7) << row;
    EXPECT_GT(error, 0);
  }
}

LinearLayer model_layer(int64_t in, int64_t out) {
  return {in, out, true, false, false, true, true};
}

TEST(LinearChooser, SplitPaysForTheModelsLayers) {
  for (auto [in, out] : {std::pair{1024, 3072}, {1024, 1024}, {1024, 4096}, {4096, 1024}})
    EXPECT_TRUE(split_pays(model_layer(in, out)));
  EXPECT_FALSE(split_pays(model_layer(1028, 1024)));
  EXPECT_FALSE(split_pays(model_layer(1024, 1028)));
  EXPECT_FALSE(split_pays(model_layer(8192, 1024)));
  EXPECT_FALSE(split_pays(model_layer(64, 1024)));
}

TEST(LinearChooser, SplitNeedsFp32ManyRowsAndTheChip) {
  for (bool LinearLayer::*fact : {&LinearLayer::fp32, &LinearLayer::tf32, &LinearLayer::few_rows,
                                  &LinearLayer::aligned, &LinearLayer::wgmma}) {
    LinearLayer layer = model_layer(1024, 1024);
    layer.*fact = !(layer.*fact);
    EXPECT_FALSE(split_pays(layer));
  }
}

TEST(Linear, IsLibTorchsProductOnTheCpu) {
  // It is oneDNN's where MKL is slow, with another order of the sums.
  for (const int64_t tokens : {20, 600}) {
    at::manual_seed(0);
    const at::Tensor x = at::randn({2, tokens, 256}), w = at::randn({256, 256}), b = at::randn({256});
    const Linear linear(w, b, {at::kFloat, at::kFloat});
    const auto expect_close = [&](const at::Tensor& y, const at::Tensor& of) {
      const at::Tensor exact = at::linear(of.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble));
      EXPECT_LE(((y - exact).norm() / exact.norm()).item<double>(), 4e-7) << tokens;
      const bool is_same = at::equal(y, at::linear(of, w, b));
      EXPECT_TRUE(is_same || onednn_pays(w, false)) << tokens;
    };
    expect_close(linear(x), x);
    at::Tensor overwritten = x.clone(), written = at::empty({2 * tokens, 256});
    expect_close(linear.of_gelu_(overwritten), at::gelu(x));
    linear.write(written, x.view({-1, 256}));
    expect_close(written.view(x.sizes()), x);
    EXPECT_FALSE(linear.parts.memory.defined());
  }
}

TEST(LayerNorm, PiecesOfRowsDoNotMatter) {
  at::manual_seed(0);
  TensorSource source;
  source.load = [](const std::string&, at::ScalarType type, at::Device) { return at::randn({24}, type); };
  Binder bind(&source, {at::kFloat, at::kFloat}, at::kCPU);
  const LayerNorm norm(bind, "norm", 24);
  const at::Tensor wide = at::randn({5, 7, 30}), x = wide.narrow(2, 3, 24);
  const at::Tensor whole = at::layer_norm(x, {24}, norm.weight, norm.bias, norm.eps);
  for (int64_t elements : {1, 24, 25, 72, 839, 840, 10000})
    EXPECT_TRUE(at::equal(norm(x, elements), whole)) << elements;
}

TEST(LayerNorm, NothingExceedsTheBoundsOfAProduct) {
  at::manual_seed(1);
  constexpr int64_t C = 48, kOut = 12, kGroups = 3;
  TensorSource source;
  source.load = [](const std::string&, at::ScalarType type, at::Device) { return at::randn({C}, type); };
  Binder bind(&source, {at::kFloat, at::kFloat}, at::kCPU);
  const LayerNorm norm(bind, "norm", C);
  at::Tensor weight = at::randn({kOut, C}), bias = at::randn({kOut});
  // Random rows, and for each output the two that take it furthest, but for the middle that a norm takes
  // away.
  const at::Tensor furthest = weight * norm.weight;
  const at::Tensor rows = at::cat({at::randn({1000, C}), furthest, -furthest, 1e-4 * furthest});
  const auto largest = [&] {
    return at::linear(norm(rows), weight, bias).abs().amax(0).view({kGroups, -1}).amax(1);
  };
  const at::Tensor bounds = norm_product_bounds(norm, weight, bias, kGroups);
  ASSERT_EQ(bounds.sizes(), at::IntArrayRef({kGroups}));
  EXPECT_TRUE((largest() <= bounds).all().item<bool>());
  EXPECT_TRUE((largest() >= 0.8 * bounds).all().item<bool>()) << largest() / bounds;
  weight[5][7] = NAN;  // of the second group
  weight.narrow(0, 8, 4).zero_();
  bias.narrow(0, 8, 4).zero_();
  const at::Tensor odd = norm_product_bounds(norm, weight, bias, kGroups);
  EXPECT_EQ(odd[1].item<float>(), std::numeric_limits<float>::max());
  EXPECT_EQ(odd[2].item<float>(), 0x1p-100F);
}

}  // namespace
