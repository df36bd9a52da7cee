#include <gtest/gtest.h>

#include <ostream>

#include "model/layers/conv.h"

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

}  // namespace
}  // namespace vggt
