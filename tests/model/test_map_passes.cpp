// Passes over channels-last maps, held to float64.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "model/heads/head_constants.h"
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
  static at::ScalarType state() { return type() == at::kBFloat16 ? at::kFloat : type(); }
  /// Of biases and places.
  static at::TensorOptions table_options() { return options().dtype(state()); }
  /// Whether LibTorch's operations round to bf16 after each of up to four terms, which are rounded too.
  static bool rounds_often() {
    return type() == at::kBFloat16 && !(device().is_cuda() && channels() % 16 == 0);
  }
  /// The largest difference beside one rounding to bf16.
  static double limit() { return rounds_often() ? 0.25 : type() == at::kDouble ? 1e-14 : 3e-6; }
  static void expect_near(const at::Tensor& got, const at::Tensor& exact, double slack = 1) {
    EXPECT_EQ(got.sizes(), exact.sizes());
    EXPECT_EQ(got.scalar_type(), type());
    const double rounding = type() == at::kBFloat16 ? std::ldexp(1.0, -8) : 0;
    const at::Tensor beyond = (got.to(at::kDouble) - exact).abs() - rounding * exact.abs();
    EXPECT_LE(beyond.max().item<double>(), slack * limit());
  }
};

at::Tensor exact_of(const at::Tensor& x) {
  return x.to(at::kDouble);
}

TEST_P(MapPasses, AddWhatIsDefined) {
  const at::Tensor x = map(3, 5, 7), first = map(3, 5, 7), second = map(3, 5, 7);
  const at::Tensor bias = at::randn({channels()}, table_options());
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
    expect_near(plain, exact, 10);
    const at::Tensor bias = at::randn({channels()}, table_options());
    const PlaceTables places{at::randn({s.to_columns, channels() / 2}, table_options()),
                             at::randn({s.to_rows, channels() / 2}, table_options())};
    at::Tensor sum = (type() == at::kBFloat16 ? exact : exact_of(plain)) + exact_of(bias).view({1, -1, 1, 1});
    const int64_t half = channels() / 2;
    sum.narrow(1, 0, half) += exact_of(places.along_x).t().unsqueeze(1);
    sum.narrow(1, half, half) += exact_of(places.along_y).t().unsqueeze(2);
    const at::Tensor before = x.clone();
    expect_near(resize_map(x, s.to_rows, s.to_columns, bias, places), sum,
                type() == at::kBFloat16 && !rounds_often() ? 10 : 1);
    EXPECT_TRUE(at::equal(x, before));
  }
  EXPECT_THROW(
      resize_map(map(1, 2, 2), 4, 4, {},
                 {at::ones({3, channels() / 2}, options()), at::ones({4, channels() / 2}, options())}),
      c10::Error);
}

TEST_P(MapPasses, FinishInTheStateType) {
  for (const int64_t outputs : {2, 4, 3}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 7}, {1, 1}, {16, 32}, {28, 37}}) {
      const at::Tensor x = map(3, rows, columns), bias = at::randn({channels()}, table_options()),
                       weight = at::randn({outputs, channels(), 1, 1}, table_options()),
                       offset = at::randn({outputs}, table_options());
      for (const bool has_bias : {true, false}) {
        at::Tensor hidden = exact_of(x).clone();
        if (has_bias) hidden += exact_of(bias).view({1, -1, 1, 1});
        const at::Tensor exact = at::conv2d(hidden.relu(), exact_of(weight), exact_of(offset));
        at::Tensor scratch = x.clone();
        const at::Tensor got = finish_map_(scratch, has_bias ? bias : at::Tensor(), weight, offset);
        EXPECT_EQ(got.sizes(), exact.sizes());
        EXPECT_EQ(got.scalar_type(), state());
        EXPECT_LE((exact_of(got) - exact).abs().max().item<double>(), state() == at::kDouble ? 1e-12 : 5e-5);
        if (!x.is_cpu() || channels() != kDptLastChannels || rows * columns < 16) continue;
        for (const int threads : {1, 2}) {  // the same bits of each map alone
          at::set_num_threads(threads);
          for (int64_t f = 0; f < x.size(0); ++f) {
            at::Tensor one = x.narrow(0, f, 1).clone();
            EXPECT_TRUE(at::equal(finish_map_(one, has_bias ? bias : at::Tensor(), weight, offset),
                                  got.narrow(0, f, 1)))
                << rows << "x" << columns << ", " << threads << " threads";
          }
        }
      }
    }
  }
  at::Tensor bad = map(1, 2, 2);
  bad[0][0][0][0] = NAN;
  const at::Tensor weight = at::ones({2, channels(), 1, 1}, table_options()),
                   offset = at::zeros({2}, table_options());
  EXPECT_EQ(finish_map_(bad, {}, weight, offset).isnan().sum().item<int64_t>(), 2);
  EXPECT_THROW(finish_map_(bad, {}, weight.narrow(1, 0, channels() / 2), offset), c10::Error);
}

// Of 6 channels a GPU's kernel takes none, and of 8 or 136 in bf16 not all: LibTorch's operations.
INSTANTIATE_TEST_SUITE_P(Cpu, MapPasses,
                         testing::Combine(testing::Values(at::kCPU),
                                          testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values(6, 32)));
INSTANTIATE_TEST_SUITE_P(Cuda, MapPasses,
                         testing::Combine(testing::Values(at::kCUDA),
                                          testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values(6, 8, 32, 128, 136)));

}  // namespace
}  // namespace vggt
