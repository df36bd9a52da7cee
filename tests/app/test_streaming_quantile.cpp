// The quantile of a stream against that of the sorted numbers.
#include <gtest/gtest.h>

#include <random>

#include "app/scene/streaming_quantile.h"
#include "tests/support/percentile.h"

namespace vggt {
namespace {

using test::percentile;

TEST(StreamingQuantile, EqualsTheSortedQuantile) {
  std::mt19937 random(1);
  for (const int count : {1, 2, 3, 10, 1001, 3000000}) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(random() % 10007) / 7);
    for (const double percent : {0.0, 1.0, 33.3, 50.0, 99.0, 99.99, 100.0}) {
      if (count > 10000 && percent != 33.3 && percent != 99.0) continue;
      StreamingQuantile top(percent / 100, count);
      for (const float value : values) top.add(value);
      EXPECT_DOUBLE_EQ(top.quantile(), percentile(values, percent)) << count << " " << percent;
    }
  }
}

TEST(StreamingQuantile, LowerBoundNeverPassesTheQuantileAndPrunes) {
  constexpr int kCount = 4000000;
  StreamingQuantile top(0.9, kCount);
  for (int i = 0; i < kCount; ++i) top.add(static_cast<float>(i % 1000003));
  EXPECT_GT(top.lower_bound(), 0);
  const float bound = top.lower_bound();
  EXPECT_LE(bound, top.quantile());
}

TEST(StreamingQuantile, TakesFewerValuesThanAnnounced) {
  StreamingQuantile top(0.5, 100);
  for (const float value : {4.f, 1.f, 3.f, 2.f}) top.add(value);
  EXPECT_DOUBLE_EQ(top.quantile(), 2.5);
}

}  // namespace
}  // namespace vggt
