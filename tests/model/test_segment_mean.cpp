// Means of segments of rows, held to float64 and to LibTorch's embedding_bag.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "model/layers/segment_mean.h"

namespace vggt {
namespace {

struct Segments {
  at::Tensor members, offsets;  // [N'], [M+1] int64

  Segments to(at::Device device) const { return {members.to(device), offsets.to(device)}; }
};

/// So many members each, drawn from so many rows.
Segments draw(const std::vector<int64_t>& lengths, int64_t rows) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return {at::randint(rows, {offsets.back()}, at::kLong), at::tensor(offsets, at::kLong)};
}

/// Segments that are empty, of one member, and around what the kernel loads at once and calls long.
Segments draw_all_lengths(int64_t rows) {
  std::vector<int64_t> lengths{0, 1, 1, 2, 3, 4, 5, 0, 7, 8, 9, 31, 32, 33, 63, 64, 65, 66, 96, 97, 128, 129};
  for (int64_t i = 0; i < 40; ++i) lengths.push_back(1 + i % 4);
  lengths.insert(lengths.end(), {1000, 0, 4099, 1, 0});
  return draw(lengths, rows);
}

at::Tensor bag(const at::Tensor& values, const Segments& segments) {
  return std::get<0>(
      at::embedding_bag(values, segments.members, segments.offsets, false, 1, false, {}, true));
}

/// Means in the middle third of [M,3,K], and a row of sentinels above and below.
struct StridedRoom {
  StridedRoom(int64_t rows, const at::Tensor& values)
      : all(at::full({rows + 2, 3, values.size(1)}, 77, values.options())),
        means(all.narrow(0, 1, rows).select(1, 1)) {}

  void expect_sentinels() const {
    at::Tensor rest = all.clone();
    rest.narrow(0, 1, means.size(0)).select(1, 1).fill_(77);
    EXPECT_TRUE((rest == 77).all().item<bool>());
  }

  at::Tensor all, means;
};

double largest_error(const at::Tensor& got, const at::Tensor& exact) {
  EXPECT_TRUE(got.isfinite().all().item<bool>());
  return (got.cpu().to(at::kDouble) - exact).abs().max().item<double>();
}

class SegmentMean : public testing::TestWithParam<std::tuple<at::DeviceType, at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    at::manual_seed(4);
  }
  static at::Device device() { return std::get<0>(GetParam()); }
  static at::ScalarType type() { return std::get<1>(GetParam()); }
  static at::Tensor normal(int64_t rows) {
    return at::randn({rows, std::get<2>(GetParam())}).to(type()).to(device());
  }
};

TEST_P(SegmentMean, IsTheMeanInFloat64) {
  const at::Tensor values = normal(517);
  const Segments segments = draw_all_lengths(517), there = segments.to(device());
  const int64_t rows = segments.offsets.size(0) - 1;
  const at::Tensor exact = bag(values.cpu().to(at::kDouble), segments), libtorch = bag(values, there);
  StridedRoom room(rows, values);
  segment_mean_into(room.means, values, there.members, there.offsets);
  room.expect_sentinels();
  EXPECT_LE(largest_error(room.means, exact), largest_error(libtorch, exact));
  EXPECT_TRUE(at::equal(room.means, libtorch));  // sums in the same order
  at::Tensor dense = at::empty_like(libtorch), elsewhere = at::empty_like(libtorch, at::kCPU);
  segment_mean_into(dense, values, there.members, there.offsets);
  EXPECT_TRUE(at::equal(dense, libtorch));
  segment_mean_into(elsewhere, values, there.members, there.offsets);
  EXPECT_TRUE(at::equal(elsewhere, libtorch.cpu()));
}

TEST_P(SegmentMean, OfOneMemberIsThatMember) {
  at::Tensor values = normal(64);
  values[5].fill_(-0.0);
  values[6].fill_(INFINITY);
  const at::Tensor members = at::randperm(64, at::kLong).to(device()),
                   offsets = at::arange(65, at::kLong).to(device());
  StridedRoom room(64, values);
  segment_mean_into(room.means, values, members, offsets);
  EXPECT_TRUE(at::equal(room.means, values.index_select(0, members)));
  room.expect_sentinels();
}

TEST_P(SegmentMean, KeepsWhatIsNotFiniteInItsSegment) {
  at::Tensor values = normal(300);
  values[7].fill_(NAN);
  const Segments segments = Segments{at::cat({at::arange(8, 300), at::tensor({7, 1, 2, 3, 4, 5}, at::kLong)}),
                                     at::tensor({0, 1, 4, 292, 294, 296, 298}, at::kLong)}
                                .to(device());
  at::Tensor means = at::empty({6, values.size(1)}, values.options());
  segment_mean_into(means, values, segments.members, segments.offsets);
  const at::Tensor finite = means.isfinite().all(1).cpu();
  for (int64_t row = 0; row < 6; ++row) EXPECT_EQ(finite[row].item<bool>(), row != 3) << row;
}

// 1027 columns do not fill 16 bytes: embedding_bag.
INSTANTIATE_TEST_SUITE_P(Cpu, SegmentMean,
                         testing::Combine(testing::Values(at::kCPU),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(6, 64)));
INSTANTIATE_TEST_SUITE_P(Cuda, SegmentMean,
                         testing::Combine(testing::Values(at::kCUDA),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),
                                          testing::Values(8, 32, 120, 128, 256, 264, 384, 1024, 1027, 2048)));

TEST(SegmentMeans, RefusesWhatDoesNotFit) {
  const at::Tensor values = at::ones({4, 8}), members = at::arange(4),
                   offsets = at::tensor({0, 2, 4}, at::kLong);
  const auto run = [&](at::Tensor out, const at::Tensor& x) { segment_mean_into(out, x, members, offsets); };
  EXPECT_NO_THROW(run(at::empty({2, 8}), values));
  EXPECT_THROW(run(at::empty({3, 8}), values), c10::Error);
  EXPECT_THROW(run(at::empty({2, 7}), values), c10::Error);
  EXPECT_THROW(run(at::empty({2, 8}, at::kDouble), values), c10::Error);
  EXPECT_THROW(run(at::empty({2, 4}), at::ones({8, 4}).t()), c10::Error);
}

}  // namespace
}  // namespace vggt
