#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <ostream>

#include "model/layers/conv.h"
#include "model/model_options.h"
#include "tests/support/refusal.h"

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

}  // namespace
}  // namespace vggt
