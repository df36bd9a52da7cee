// Ranks and quantiles by passes over the numbers, against the sorted numbers.
#include <gtest/gtest.h>

#include <random>

#include "app/scene/rank_search.h"
#include "tests/support/percentile.h"

namespace vggt {
namespace {

/// What the search finds, with the numbers counted by two threads' tallies.
template <class Number>
std::pair<Number, Number> found(const std::vector<Number>& numbers, int64_t rank, bool next_too) {
  using Key = decltype(ordered_key(Number()));
  RankSearch<Key> search;
  search.want(rank, next_too);
  for (int pass = 0; !search.done(); ++pass) {
    EXPECT_LT(pass, 4);
    auto one = search.tally(), two = search.tally();
    for (std::size_t i = 0; i < numbers.size(); ++i) search.count(ordered_key(numbers[i]), i % 3 ? one : two);
    search.merge(two, one);
    search.end_pass(one);
  }
  return {number_of(search.low()), number_of(search.high())};
}

double quantile(const std::vector<float>& values, double percent) {
  const QuantilePlace place(percent / 100, static_cast<int64_t>(values.size()));
  const auto [low, high] = found(values, place.rank, place.next_too);
  return place.between(low, high);
}

TEST(RankSearch, KeysHaveTheOrderOfTheNumbers) {
  const std::vector<float> rising = {-3e38F, -2, -1.5F, -1e-40F, 0, 1e-40F, 0.5F, 1, 3e38F};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    EXPECT_EQ(number_of(ordered_key(rising[i])), rising[i]);
    EXPECT_EQ(number_of(ordered_key(double{rising[i]})), rising[i]);
    if (i == 0) continue;
    EXPECT_LT(ordered_key(rising[i - 1]), ordered_key(rising[i]));
    EXPECT_LT(ordered_key(double{rising[i - 1]}), ordered_key(double{rising[i]}));
  }
  EXPECT_EQ(ordered_key(-0.0F), ordered_key(0.0F));
  EXPECT_EQ(ordered_key(-0.0), ordered_key(0.0));
}

TEST(RankSearch, QuantilesEqualTheSortedOnesBitForBit) {
  std::mt19937 random(1);
  for (const int count : {1, 2, 3, 10, 1001, 3000000}) {
    std::vector<float> ties, spread, close;
    for (int i = 0; i < count; ++i) {
      ties.push_back(static_cast<float>(random() % 10007) / 7 - 500);
      spread.push_back(static_cast<float>(random()) * (random() % 2 ? 1e-20F : -1e20F));
      close.push_back(1 + static_cast<float>(random() % 50) * 1e-7F);
    }
    for (const double percent : {0.0, 1.0, 33.3, 50.0, 99.0, 99.99, 100.0}) {
      if (count > 10000 && percent != 33.3 && percent != 99.0) continue;
      for (const auto& values : {ties, spread, close})
        EXPECT_EQ(quantile(values, percent), test::percentile(values, percent)) << count << " " << percent;
    }
  }
}

TEST(RankSearch, EveryRankOfDoublesAndTheNextOne) {
  std::mt19937 random(2);
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) {
    const double base = 1 + static_cast<double>(random() % 3);
    values.push_back(base + std::ldexp(static_cast<double>(random() % 3), -20 - 15 * (i % 3)));
  }
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const bool next = rank + 1 < values.size();
    const auto [low, high] = found(values, static_cast<int64_t>(rank), next);
    EXPECT_EQ(low, sorted[rank]);
    EXPECT_TRUE(!next || high == sorted[rank + 1]);
  }
}

// More keys than the search keeps begin with the same 16 bits, then with the same 32, 48 and 64.
TEST(RankSearch, ManyThatBeginAlikeTakeMorePasses) {
  std::vector<double> values(5'000'000, 1.0);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] += 0x1p-52 * static_cast<double>(i % 8);
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  const auto [low, high] = found(values, 2'499'999, true);
  EXPECT_EQ(low, sorted[2'499'999]);
  EXPECT_EQ(high, sorted[2'500'000]);
}

}  // namespace
}  // namespace vggt
