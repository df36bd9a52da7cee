// Passes over channels-last maps, held to float64.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "model/layers/map_passes.h"

namespace vggt {
namespace {

class MapPasses : public testing::TestWithParam<std::tuple<at::DeviceType, at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    at::manual_seed(21);
  }
  static at::Device device() { return std::get<0>(GetParam()); }
  static at::ScalarType type() { return std::get<1>(GetParam()); }
  static int64_t channels() { return std::get<2>(GetParam()); }
  static at::TensorOptions options() { return at::device(device()).dtype(type()); }
  static at::Tensor map(int64_t frames, int64_t rows, int64_t columns) {
    return at::randn({frames, channels(), rows, columns}, options())
        .contiguous(at::MemoryFormat::ChannelsLast);
  }
  static double limit() { return type() == at::kDouble ? 1e-14 : 3e-6; }
  static void expect_near(const at::Tensor& got, const at::Tensor& exact) {
    EXPECT_EQ(got.sizes(), exact.sizes());
    EXPECT_LE((got.to(at::kDouble) - exact).abs().max().item<double>(), limit());
  }
};

at::Tensor exact_of(const at::Tensor& x) {
  return x.to(at::kDouble);
}

TEST_P(MapPasses, AddWhatIsDefined) {
  const at::Tensor x = map(3, 5, 7), first = map(3, 5, 7), second = map(3, 5, 7);
  const at::Tensor bias = at::randn({channels()}, options());
  for (int which = 0; which < 16; ++which) {
    MapTerms terms;
    at::Tensor exact = exact_of(x), got = x.clone();
    if (which & 1) exact += exact_of(terms.bias = bias).view({1, -1, 1, 1});
    if (which & 2) exact += exact_of(terms.first = first);
    if (which & 4) exact += exact_of(terms.second = second);
    if ((terms.relu = (which & 8) != 0)) exact = exact.relu();
    add_to_map_(got, terms);
    expect_near(got, exact);
  }
  at::Tensor bad = x.clone();
  bad[0][0][0][0] = NAN;
  add_to_map_(bad, {.relu = true});
  EXPECT_TRUE(bad.isnan().sum().item<int64_t>() == 1);
  EXPECT_THROW(add_to_map_(bad, {.bias = at::ones({channels() + 1}, options())}), c10::Error);
}

TEST_P(MapPasses, ResizeWithCornersOnCorners) {
  struct Size {
    int64_t rows, columns, to_rows, to_columns;
  };
  for (const Size s : {Size{3, 5, 8, 11}, Size{28, 37, 56, 74}, Size{1, 4, 3, 9}, Size{6, 1, 1, 5},
                       Size{9, 8, 4, 3}, Size{5, 6, 5, 6}, Size{4, 4, 1, 1}}) {
    SCOPED_TRACE(testing::Message() << s.rows << "x" << s.columns << " to " << s.to_rows << "x"
                                    << s.to_columns);
    const at::Tensor x = map(2, s.rows, s.columns);
    const at::Tensor exact = at::upsample_bilinear2d(exact_of(x), {s.to_rows, s.to_columns}, true);
    const at::Tensor plain = resize_map(x, s.to_rows, s.to_columns);
    EXPECT_TRUE(plain.is_contiguous(at::MemoryFormat::ChannelsLast));
    // A place's last bit may count a pixel's difference where there are many.
    EXPECT_LE((exact_of(plain) - exact).abs().max().item<double>(), 10 * limit());
    const at::Tensor bias = at::randn({channels()}, options());
    const PlaceTables places{at::randn({s.to_columns, channels() / 2}, options()),
                             at::randn({s.to_rows, channels() / 2}, options())};
    at::Tensor sum = exact_of(plain) + exact_of(bias).view({1, -1, 1, 1});
    const int64_t half = channels() / 2;
    sum.narrow(1, 0, half) += exact_of(places.along_x).t().unsqueeze(1);
    sum.narrow(1, half, half) += exact_of(places.along_y).t().unsqueeze(2);
    const at::Tensor before = x.clone();
    expect_near(resize_map(x, s.to_rows, s.to_columns, bias, places), sum);
    EXPECT_TRUE(at::equal(x, before));
  }
  EXPECT_THROW(
      resize_map(map(1, 2, 2), 4, 4, {},
                 {at::ones({3, channels() / 2}, options()), at::ones({4, channels() / 2}, options())}),
      c10::Error);
}

// Of 6 channels a GPU's kernel takes none: LibTorch's operations.
INSTANTIATE_TEST_SUITE_P(Cpu, MapPasses,
                         testing::Combine(testing::Values(at::kCPU), testing::Values(at::kFloat, at::kDouble),
                                          testing::Values(6, 32)));
INSTANTIATE_TEST_SUITE_P(Cuda, MapPasses,
                         testing::Combine(testing::Values(at::kCUDA),
                                          testing::Values(at::kFloat, at::kDouble),
                                          testing::Values(6, 8, 32, 128, 136)));

}  // namespace
}  // namespace vggt
