#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>

#include "io/files/clones.h"
#include "model/layers/conv.h"
#include "model/layers/split_conv.h"
#include "model/layers/winograd.h"
#include "model/model_options.h"
#include "tests/support/refusal.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif

namespace vggt {
namespace {

struct Size {
  int64_t frames, in, out, rows, columns, kernel, stride, padding;

  friend void PrintTo(const Size& s, std::ostream* out) {
    *out << s.kernel << "x" << s.kernel << " over " << s.rows << "x" << s.columns << ", stride " << s.stride;
  }
};

class ConvolveAsProduct : public ::testing::TestWithParam<Size> {};

TEST_P(ConvolveAsProduct, EqualsConvolutionInPiecesOfAnySize) {
  const Size s = GetParam();
  const auto options = at::TensorOptions(at::kDouble).memory_format(at::MemoryFormat::ChannelsLast);
  at::Tensor x = at::empty({s.frames, s.in, s.rows, s.columns}, options);  // [F,in,H,W]
  at::Tensor weight = at::empty({s.out, s.in, s.kernel, s.kernel}, options);
  x.normal_();
  weight.normal_();
  const at::Tensor bias = at::randn({s.out}, at::kDouble);
  for (const at::Tensor& offset : {bias, at::Tensor()}) {
    const at::Tensor expected = at::conv2d(x, weight, offset, s.stride, s.padding);
    for (const int64_t piece : {int64_t{1}, int64_t{9000}, int64_t{1} << 28}) {
      const at::Tensor got = convolve_as_product(x, weight, offset, s.stride, s.padding, piece);
      ASSERT_EQ(got.sizes(), expected.sizes());
      EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_LE((got - expected).abs().max().item<double>(), 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ConvolveAsProduct,
                         ::testing::Values(Size{2, 8, 12, 9, 7, 3, 1, 1}, Size{3, 4, 8, 10, 13, 3, 2, 1},
                                           Size{1, 4, 4, 8, 8, 2, 2, 0}, Size{1, 2, 3, 1, 1, 3, 1, 1}));

class Winograd : public ::testing::TestWithParam<Size> {
 protected:
  void SetUp() override {
    const Size s = GetParam();
    at::manual_seed(5);
    const auto options = at::TensorOptions(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast);
    x_ = at::empty({s.frames, s.in, s.rows, s.columns}, options).normal_().relu_();
    weight_ = at::empty({s.out, s.in, s.kernel, s.kernel}, options).normal_();
    bias_ = at::randn({s.out});
    if (!runs_avx512()) GTEST_SKIP() << "no AVX-512";
    ASSERT_TRUE(winograd_pays(x_, weight_, s.stride, s.padding));
  }

  at::Tensor x_, weight_, bias_;
};

TEST_P(Winograd, EqualsWindowsToRounding) {
  for (const at::Tensor& bias : {bias_, at::Tensor()}) {
    const at::Tensor exact = at::conv2d(x_.to(at::kDouble), weight_.to(at::kDouble),
                                        bias.defined() ? bias.to(at::kDouble) : bias, 1, 1);
    const at::Tensor got = convolve_winograd(x_, weight_, bias);
    ASSERT_EQ(got.sizes(), exact.sizes());
    EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
    const auto size = [](const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); };
    EXPECT_LE(size(got - exact) / size(exact), 1.2e-6);
    EXPECT_LE((got - exact).abs().max().item<double>() / size(exact), 2e-5);
    EXPECT_TRUE(at::equal(got, convolve_winograd(x_.contiguous(), weight_.contiguous(), bias)));
  }
}

TEST_P(Winograd, IsTheSameOfEachFrameAloneAndWithOneThread) {
  const at::Tensor together = convolve_winograd(x_, weight_, bias_);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 3 : 1);
  for (int64_t frame = 0; frame < x_.size(0); ++frame)
    EXPECT_TRUE(at::equal(convolve_winograd(x_.narrow(0, frame, 1), weight_, bias_)[0], together[frame]));
  at::set_num_threads(threads);
}

TEST_P(Winograd, IsWhatAConvolutionOnACpuComputes) {
  TensorSource source;
  source.shapes = {{"conv.weight", weight_.sizes().vec()}, {"conv.bias", bias_.sizes().vec()}};
  source.load = [&](const std::string& name, at::ScalarType, at::Device) {
    return name == "conv.bias" ? bias_ : weight_;
  };
  Binder bind(&source, {at::kFloat, at::kFloat}, at::kCPU);
  const Conv2d conv(bind, "conv", weight_.size(1), weight_.size(0), 3, 1, 1);
  EXPECT_TRUE(at::equal(conv(x_), convolve_winograd(x_, weight_, bias_)));
}

TEST_P(Winograd, SpreadsWhatIsNoNumberByThreePixelsAtMost) {
  const int64_t row = x_.size(2) / 2, column = x_.size(3) / 2;
  const at::Tensor before = convolve_winograd(x_, weight_, bias_);
  x_[0][0][row][column] = std::numeric_limits<float>::infinity();
  const at::Tensor after = convolve_winograd(x_, weight_, bias_);
  const at::Tensor changed = (before != after).any(1).nonzero();  // [n,3]: frame, row, column
  EXPECT_GE(changed.size(0), 9);
  EXPECT_EQ(changed.select(1, 0).max().item<int64_t>(), 0);
  EXPECT_LE((changed.select(1, 1) - row).abs().max().item<int64_t>(), 3);
  EXPECT_LE((changed.select(1, 2) - column).abs().max().item<int64_t>(), 3);
}

// Whole tiles, broken ones, less than a vector of channels, more than a product's four vectors.
INSTANTIATE_TEST_SUITE_P(Sizes, Winograd,
                         ::testing::Values(Size{3, 16, 16, 8, 8, 3, 1, 1}, Size{2, 37, 50, 29, 31, 3, 1, 1},
                                           Size{2, 24, 24, 13, 10, 3, 1, 1}, Size{1, 64, 64, 40, 17, 3, 1, 1},
                                           Size{1, 17, 130, 9, 66, 3, 1, 1},
                                           Size{1, 256, 256, 22, 25, 3, 1, 1}));

TEST(Winograd, TakesNoOtherConvolutions) {
  const at::Tensor x = at::zeros({1, 32, 16, 16}), weight = at::zeros({32, 32, 3, 3});
  EXPECT_FALSE(winograd_pays(x, weight, 2, 1));
  EXPECT_FALSE(winograd_pays(x, weight, 1, 0));
  EXPECT_FALSE(winograd_pays(x, at::zeros({32, 32, 1, 1}), 1, 1));
  EXPECT_FALSE(winograd_pays(x, at::zeros({8, 32, 3, 3}), 1, 1));
  EXPECT_FALSE(winograd_pays(at::zeros({1, 32, 4, 4}), weight, 1, 1));
  EXPECT_FALSE(winograd_pays(at::zeros({1, 256, 14, 19}), at::zeros({256, 256, 3, 3}), 1, 1));
  EXPECT_FALSE(winograd_pays(x.to(at::kBFloat16), weight.to(at::kBFloat16), 1, 1));
}

/// Convolutions by split products, in pieces of any size.
class ConvolveSplit : public ::testing::TestWithParam<Size> {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
#ifdef VGGT_CUDA
    if (!cuda_device(at::Device(at::kCUDA, 0)).wgmma) GTEST_SKIP() << "no Hopper";
#endif
  }
};

TEST_P(ConvolveSplit, IsAsExactAsFp32) {
  const Size s = GetParam();
  at::manual_seed(2);
  const auto gpu = at::device(at::kCUDA).dtype(at::kFloat);
  // Frames differ in size by far, and so do the rows of the weight.
  const at::Tensor sizes = at::pow(10, at::arange(s.frames, gpu) * 3 - 4).view({-1, 1, 1, 1});
  const at::Tensor x = (at::randn({s.frames, s.in, s.rows, s.columns}, gpu).relu() * sizes)
                           .contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = at::randn({s.out, s.in, s.kernel, s.kernel}, gpu) *
                            at::pow(10, at::arange(s.out, gpu).remainder(5) - 2).view({-1, 1, 1, 1});
  const SplitWeight parts = split_conv_weight(weight);
  ASSERT_TRUE(parts.finite);
  const at::Tensor exact = at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), {}, 1, s.padding);
  const at::Tensor most = at::conv2d(x.abs().to(at::kDouble), weight.abs().to(at::kDouble), {}, 1, s.padding);
  at::Tensor first;
  for (const int64_t piece : {int64_t{1}, int64_t{300'000}, int64_t{1} << 28}) {
    const at::Tensor got = convolve_split(x, parts, s.kernel, s.padding, piece);
    ASSERT_EQ(got.sizes(), exact.sizes());
    EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LE(((got.to(at::kDouble) - exact).abs() / (most + 1e-30)).max().item<double>(), 3e-6);
    for (int64_t f = 0; f < s.frames; ++f)
      EXPECT_LE(((got[f].to(at::kDouble) - exact[f]).norm() / exact[f].norm()).item<double>(), 6e-7) << f;
    if (!first.defined()) first = got;
    EXPECT_TRUE(at::equal(got, first)) << piece;
  }
  at::Tensor bad = x.clone();
  bad[0][1][2][0] = INFINITY;
  const at::Tensor around = convolve_split(bad, parts, s.kernel, s.padding, 1 << 28);
  const at::Tensor untouched =
      at::conv2d(bad.to(at::kDouble), weight.to(at::kDouble), {}, 1, s.padding).isfinite();
  EXPECT_FALSE(untouched.all().item<bool>());
  EXPECT_TRUE(at::equal(around.isfinite(), untouched));
  EXPECT_TRUE(at::equal(around.masked_select(untouched), first.masked_select(untouched)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ConvolveSplit,
                         ::testing::Values(Size{3, 128, 32, 21, 34, 3, 1, 1},
                                           Size{2, 256, 130, 9, 40, 3, 1, 1},
                                           Size{1, 384, 256, 14, 19, 3, 1, 1},
                                           Size{2, 128, 64, 5, 7, 2, 1, 0},
                                           Size{1, 1024, 256, 28, 37, 3, 1, 1}));

// TF32 keeps 10 bits of a factor, fp32 23.
TEST(Conv2d, Tf32IsTheLayersChoiceAndNotTheProcesss) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  ModelOptions options{.device = at::kCUDA, .precision = Precision::tf32, .heads = {.camera = true}};
  if (refusal([&] { check_model_options({}, options); }) != "(accepted)") GTEST_SKIP() << "no TF32 here";
  at::manual_seed(1);
  const auto gpu = at::device(at::kCUDA).dtype(at::kFloat);
  for (const int64_t kernel : {1, 3}) {
    TensorSource source;
    source.load = [&](const std::string& name, at::ScalarType, at::Device) {
      return name.ends_with("bias") ? at::zeros({64}, gpu) : at::randn({64, 64, kernel, kernel}, gpu);
    };
    const at::Tensor x = at::randn({2, 64, 40, 56}, gpu).contiguous(at::MemoryFormat::ChannelsLast);
    for (const bool process : {true, false}) {
      at::globalContext().setAllowTF32CuDNN(process);
      for (const bool tf32 : {true, false}) {
        Binder bind(&source, {at::kFloat, at::kFloat, false, tf32}, at::Device(at::kCUDA, 0));
        const Conv2d conv(bind, "conv", 64, 64, kernel, 1, kernel / 2);
        const at::Tensor exact =
            at::conv2d(x.to(at::kDouble), conv.weight.to(at::kDouble), {}, 1, kernel / 2);
        const double error = ((conv(x).to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
        EXPECT_EQ(error > 1e-5, tf32) << kernel << ", error " << error;
      }
    }
  }
  at::globalContext().setAllowTF32CuDNN(true);
}

TEST(Conv2d, ByPartsOfItsWeightIsTheSame) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(3);
  const auto gpu = at::device(at::kCUDA).dtype(at::kFloat);
  const at::Tensor weight = at::randn({64, 128, 3, 3}, gpu), bias = at::randn({64}, gpu);
  TensorSource source;
  source.load = [&](const std::string& name, at::ScalarType, at::Device) {
    return name.ends_with("bias") ? bias : weight;
  };
  Binder bind(&source, {at::kFloat, at::kFloat, false, false}, at::Device(at::kCUDA, 0));
  const Conv2d conv(bind, "conv", 128, 64, 3, 1, 1);
  at::Tensor x = at::randn({2, 128, 30, 41}, gpu).contiguous(at::MemoryFormat::ChannelsLast);
  const auto exact = [&] {
    return at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), 1, 1);
  };
  EXPECT_LE(((conv(x).to(at::kDouble) - exact()).norm() / exact().norm()).item<double>(), 1e-6);
  x[1][5][20][30] = INFINITY;  // what it does not touch is as before
  const at::Tensor got = conv(x).to(at::kDouble), want = exact();
  EXPECT_TRUE(at::equal(got.isfinite(), want.isfinite()));
  const at::Tensor finite = want.isfinite();
  EXPECT_LE(
      ((got.masked_select(finite) - want.masked_select(finite)).norm() / want.masked_select(finite).norm())
          .item<double>(),
      1e-6);
}

/// Convolutions whose windows do not overlap, which may be products of rows.
class WindowLayers : public ::testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    at::manual_seed(4);
    at::globalContext().setAllowTF32CuBLAS(false);
  }

  static at::Tensor normal(at::IntArrayRef sizes) {
    return at::randn(sizes, at::device(GetParam()).dtype(at::kFloat));
  }
  static bool splits() {
#ifdef VGGT_CUDA
    return GetParam() == at::kCUDA && cuda_device(at::Device(at::kCUDA, 0)).wgmma;
#else
    return false;
#endif
  }
  /// What make(binder) makes of this weight and bias.
  template <class Make>
  static auto made(const at::Tensor& weight, const at::Tensor& bias, bool tf32, const Make& make) {
    TensorSource source;
    source.load = [&](const std::string& name, at::ScalarType, at::Device) {
      return name.ends_with("bias") ? bias : weight;
    };
    Binder bind(&source, {at::kFloat, at::kFloat, false, tf32}, at::Device(GetParam(), 0));
    return make(bind);
  }
  static void expect_near(const at::Tensor& got, const at::Tensor& exact) {
    ASSERT_EQ(got.sizes(), exact.sizes());
    EXPECT_LE(((got.to(at::kDouble) - exact).norm() / exact.norm()).item<double>(), 1e-6);
  }
};

TEST_P(WindowLayers, PatchesAreAConvolution) {
  for (auto [in, out, size] : {std::tuple{3, 256, 14}, {3, 64, 14}, {6, 264, 7}}) {
    SCOPED_TRACE(testing::Message() << in << " -> " << out << ", " << size);
    const at::Tensor weight = normal({out, in, size, size}), bias = normal({out});
    const auto make = [&, in = in, out = out, size = size](Binder& bind) {
      return PatchConv(bind, "conv", in, out, size);
    };
    const PatchConv conv = made(weight, bias, false, make);
    EXPECT_EQ(conv.product.has_value(), splits() && out >= 256);
    at::Tensor x = normal({2, in, 3 * size + 5, 2 * size});
    const auto exact = [&] {
      return at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), conv.size)
          .flatten(2)
          .transpose(1, 2);
    };
    expect_near(conv(x), exact());
    x[1][2][0][size] = NAN;
    EXPECT_TRUE(at::equal(conv(x).isfinite(), exact().isfinite()));
    EXPECT_FALSE(made(weight, bias, true, make).product);
    EXPECT_FALSE(made(weight / 0, bias, false, make).product);
  }
}

TEST_P(WindowLayers, TransposedConvolutions) {
  for (auto [channels, scale] : {std::pair{256, 4}, {512, 2}, {64, 2}}) {
    SCOPED_TRACE(testing::Message() << channels << ", " << scale);
    const at::Tensor weight = normal({channels, channels, scale, scale}), bias = normal({channels});
    const auto make = [&, channels = channels, scale = scale](Binder& bind) {
      return ConvTranspose2d(bind, "conv", channels, scale);
    };
    const ConvTranspose2d conv = made(weight, bias, false, make);
    EXPECT_EQ(conv.product.has_value(), splits() && channels >= 256);
    at::Tensor x = normal({3, channels, 5, 1}).contiguous(at::MemoryFormat::ChannelsLast);
    const auto exact = [&] {
      return at::conv_transpose2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble),
                                  conv.scale);
    };
    const at::Tensor got = conv(x);
    expect_near(got, exact());
    EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
    x[1][7][2][0] = NAN;
    EXPECT_TRUE(at::equal(conv(x).isfinite(), exact().isfinite()));
    EXPECT_FALSE(made(weight, bias, true, make).product);
  }
}

TEST_P(WindowLayers, OfSinglePixels) {
  const at::Tensor weight = normal({264, 256, 1, 1}), bias = normal({264});
  const at::Tensor x = normal({2, 256, 7, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const bool has_bias : {false, true}) {
    const auto make = [&](Binder& bind) { return Conv2d(bind, "conv", 256, 264, 1, 1, 0, has_bias); };
    const Conv2d conv = made(weight, bias, false, make);
    EXPECT_EQ(conv.product.has_value(), splits());
    expect_near(conv(x), at::conv2d(x.to(at::kDouble), weight.to(at::kDouble),
                                    has_bias ? bias.to(at::kDouble) : at::Tensor()));
    EXPECT_TRUE(conv(x).is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_FALSE(made(weight, bias, true, make).product);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WindowLayers, ::testing::Values(at::kCPU, at::kCUDA));

}  // namespace
}  // namespace vggt
