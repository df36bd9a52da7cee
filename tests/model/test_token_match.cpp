// The most similar destination of every source, against float64, on the CPU and on a GPU.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "model/layers/gemm_work.h"
#include "model/trunk/narrow_metric.h"
#include "model/trunk/token_match.h"

namespace vggt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

at::Tensor unit_rows(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  const at::Tensor x = at::randn({rows, columns}, options.dtype(at::kFloat));
  return (x / x.norm(2, {1}, true)).to(options.dtype()).contiguous();
}

/// What sums of products may lose: of fp32's last bit, and of the three products of a split one.
double tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-14 : 2e-6;
}

/// Every score is that of the chosen destination, and no destination is better, both to rounding.
void expect_best(const at::Tensor& sources, const at::Tensor& destinations, const TokenMatches& matches) {
  const int64_t s = sources.size(0), d = destinations.size(0);
  ASSERT_EQ(matches.best.sizes(), at::IntArrayRef({s}));
  ASSERT_EQ(matches.score.sizes(), at::IntArrayRef({s}));
  ASSERT_EQ(matches.best.scalar_type(), at::kLong);
  ASSERT_EQ(matches.score.scalar_type(), sources.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  if (s == 0) return;
  ASSERT_TRUE(matches.best.ge(0).logical_and(matches.best.lt(d)).all().item<bool>());
  const at::Tensor exact = at::mm(sources.to(at::kDouble), destinations.to(at::kDouble).t());  // [s,d]
  const at::Tensor chosen = exact.gather(1, matches.best.unsqueeze(1)).squeeze(1);             // [s]
  const double bound = tolerance(sources.scalar_type());
  EXPECT_LE((matches.score.to(at::kDouble) - chosen).abs().max().item<double>(), bound);
  EXPECT_LE((std::get<0>(exact.max(1)) - chosen).max().item<double>(), bound);
}

std::vector<at::Device> devices() {
  std::vector<at::Device> all{at::kCPU};
  if (at::globalContext().hasCUDA()) all.emplace_back(at::kCUDA, 0);
  return all;
}

class TokenMatch : public ::testing::TestWithParam<std::tuple<at::Device, at::ScalarType>> {
 protected:
  void SetUp() override { at::manual_seed(11); }
  static at::TensorOptions options() {
    return at::device(std::get<0>(GetParam())).dtype(std::get<1>(GetParam()));
  }
  static void expect_best_of(int64_t s, int64_t d, int64_t columns) {
    SCOPED_TRACE(testing::Message() << s << " of " << d << ", " << columns << " columns");
    const at::Tensor sources = unit_rows(s, columns, options()),
                     destinations = unit_rows(d, columns, options());
    expect_best(sources, destinations, best_destinations(sources, destinations));
  }
};

TEST_P(TokenMatch, FindsTheBestAtRaggedSizes) {
  for (const int64_t s : {0, 1, 2, 63, 64, 65, 127, 128, 129, 257}) expect_best_of(s, 71, 40);
  for (const int64_t d : {1, 2, 7, 8, 127, 128, 129, 255, 256, 257, 519}) expect_best_of(70, d, 72);
  for (const int64_t columns : {1, 3, 8, 20, 24, 64, 128, 136, 384, 768, 1024})
    expect_best_of(130, 270, columns);
}

TEST_P(TokenMatch, FindsTheBestOfMany) {
  if (options().device().is_cpu()) GTEST_SKIP() << "sizes of a GPU";
  for (const int64_t columns : {384, 1024}) {
    expect_best_of(1, 20011, columns);
    expect_best_of(20011, 1, columns);
    expect_best_of(12345, 6789, columns);
    expect_best_of(700, 40000, columns);
    expect_best_of(70000, 3000, columns);
  }
}

TEST_P(TokenMatch, FindsThemWhereverTheyLie) {
  // Every source is one of the destinations, so that each place is the best of some source.
  for (const auto& [d, columns] : {std::tuple{600, 64}, std::tuple{1300, 384}}) {
    const at::Tensor destinations = unit_rows(d, columns, options());
    const at::Tensor order = at::randperm(d, options().dtype(at::kLong));
    const at::Tensor sources = destinations.index_select(0, order);
    EXPECT_TRUE(at::equal(best_destinations(sources, destinations).best, order)) << d;
  }
}

TEST_P(TokenMatch, FindsByFewNumbersWhatIsMuchAlike) {
  constexpr int64_t kChannels = 1024, kWidth = 256, kTokens = 600;
  const at::Tensor signs = draw_signs(kChannels, kWidth, 3);
  EXPECT_TRUE(at::equal(signs.abs(), at::ones_like(signs)));
  EXPECT_TRUE(at::equal(draw_signs(kChannels, kWidth, 3), signs));
  EXPECT_FALSE(at::equal(draw_signs(kChannels, kWidth, 4), signs));
  const at::Tensor there = signs.to(options()), wide = unit_rows(kTokens, kChannels, options()),
                   narrow = narrow_metric(wide, there);
  const double step = options().dtype() == at::kBFloat16 ? 0x1p-8 : 1e-3;
  EXPECT_LE((narrow.to(at::kDouble).norm(2, {1}) - 1).abs().max().item<double>(), step);
  // Of unrelated tokens the angles' cosines are off by one over the root of the width.
  const auto cosines = [](const at::Tensor& x) { return at::mm(x.to(at::kDouble), x.to(at::kDouble).t()); };
  const double off = (cosines(narrow) - cosines(wide)).square().mean().sqrt().item<double>();
  EXPECT_NEAR(off * std::sqrt(kWidth), 1, 0.2);
  // Each source is a destination with half as much noise.
  const at::Tensor order = at::randperm(kTokens, options().dtype(at::kLong)),
                   noisy = wide.index_select(0, order) + unit_rows(kTokens, kChannels, options()) / 2,
                   sources = (noisy / noisy.norm(2, {1}, true)).contiguous();
  EXPECT_TRUE(at::equal(best_destinations(narrow_metric(sources, there), narrow).best, order));
  EXPECT_TRUE((narrow_metric(at::zeros_like(wide), there) == 0).all().item<bool>());
}

TEST_P(TokenMatch, TakesTheFirstOfEquals) {
  // Of small whole numbers, whose sums are exact in any order.
  const at::Tensor one = at::randint(-2, 3, {37, 64}, options());
  for (const int64_t times : {1, 2, 9, 60}) {
    const at::Tensor same = one.repeat({times, 1}).contiguous();  // [times·37,64]
    const at::Tensor exact = at::mm(one.cpu().to(at::kDouble), one.cpu().to(at::kDouble).t());
    const at::Tensor first = std::get<1>(exact.max(1)).repeat({times});  // of the first copy
    EXPECT_TRUE(at::equal(best_destinations(same, same).best.cpu(), first)) << times;
  }
  const at::Tensor ones = at::ones({300, 8}, options()), zeros = at::zeros({1000, 8}, options());
  for (const at::Tensor& destinations : {ones, zeros, -ones, -zeros})
    EXPECT_EQ(best_destinations(ones, destinations).best.count_nonzero().item<int64_t>(), 0);
}

TEST_P(TokenMatch, PrefersZeroToNegativeScores) {
  // Nothing beyond the last destination may take part: its products would be zeros.
  const at::Tensor sources = unit_rows(5, 64, options()).abs();
  at::Tensor destinations = -unit_rows(300, 64, options()).abs();
  expect_best(sources, destinations, best_destinations(sources, destinations));
  EXPECT_LT(best_destinations(sources, destinations).score.max().item<double>(), 0);
  destinations[123].zero_();
  EXPECT_TRUE(best_destinations(sources, destinations).best.eq(123).all().item<bool>());
}

TEST_P(TokenMatch, NeverChoosesWhatIsNotANumber) {
  at::Tensor sources = unit_rows(200, 64, options()), destinations = unit_rows(300, 64, options());
  const TokenMatches clean = best_destinations(sources, destinations.narrow(0, 0, 299).contiguous());
  sources[3][7] = NAN;
  sources[199].fill_(NAN);
  destinations[299][63] = NAN;
  const TokenMatches matches = best_destinations(sources, destinations);
  const double bound = tolerance(sources.scalar_type());
  for (int64_t row = 0; row < 200; ++row) {
    const bool lost = row == 3 || row == 199;
    EXPECT_EQ(matches.best[row].item<int64_t>(), lost ? 0 : clean.best[row].item<int64_t>()) << row;
    const double score = matches.score[row].item<double>();
    if (lost) {
      EXPECT_EQ(score, -kInf) << row;
    } else {
      EXPECT_NEAR(score, clean.score[row].item<double>(), bound) << row;
    }
  }
  const TokenMatches none = best_destinations(sources, at::full({2, 64}, NAN, options()));
  EXPECT_EQ(none.best.count_nonzero().item<int64_t>(), 0);
  EXPECT_TRUE(none.score.eq(-kInf).all().item<bool>());
}

TEST_P(TokenMatch, RepeatsBitForBitAndInAnyPieces) {
  const at::Tensor sources = unit_rows(1500, 384, options()), destinations = unit_rows(900, 384, options());
  const TokenMatches first = best_destinations(sources, destinations),
                     second = best_destinations(sources, destinations);
  EXPECT_TRUE(at::equal(first.best, second.best));
  EXPECT_TRUE(at::equal(first.score, second.score));
  for (const int64_t piece : {1, 200, 1499}) {
    const TokenMatches some = best_destinations(sources.narrow(0, 1500 - piece, piece), destinations);
    EXPECT_TRUE(at::equal(some.best, first.best.narrow(0, 1500 - piece, piece))) << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TokenMatch,
                         ::testing::Combine(::testing::ValuesIn(devices()),
                                            ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).is_cpu() ? "cpu_" : "cuda_") +
                                  at::toString(std::get<1>(info.param));
                         });

TEST(TokenMatchTiles, HoldAsManyScoresAsTheyAreToldAndFindTheSame) {
  at::manual_seed(6);
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor sources = at::randn({37, 16}, options), destinations = at::randn({23, 16}, options);
  const auto [score, best] = at::mm(sources, destinations.t()).max(1);  // [37]
  for (const int64_t most : {1, 7, 22, 23, 24, 46, 47, 100, 37 * 23, 100000}) {
    const TokenMatches matches = best_destinations(sources, destinations, most);
    EXPECT_TRUE(at::equal(matches.best, best)) << most;
    EXPECT_LE((matches.score - score).abs().max().item<double>(), 1e-14) << most;
  }
  const TokenMatches ties = best_destinations(at::ones({37, 1}), at::ones({23, 1}), 5);
  EXPECT_EQ(ties.best.count_nonzero().item<int64_t>(), 0);
}

TEST(TokenMatchTiles, OfLongItemsAreTakenOnceAndKeepTheGpuBusy) {
  constexpr int kClusters = 66;
  for (const int rows : {1, 7, 66, 67, 148, 1180}) {
    for (const int columns : {1, 2, 52, 104, 415, 2032}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const GemmWork work = long_items(rows, columns, kClusters);
      std::set<std::pair<int, int>> seen;
      std::vector<int64_t> busy(kClusters);  // tiles of each cluster
      for (int item = 0; item < work.items(); ++item) {
        const GemmTile group = gemm_tile(item, work.row_groups, work.column_groups);
        const int end = std::min((group.column + 1) * work.of_group, columns);
        EXPECT_LT(group.column * work.of_group, end);
        for (int column = group.column * work.of_group; column < end; ++column) {
          EXPECT_TRUE(seen.insert({group.row, column}).second);
          ++busy[item % kClusters];
        }
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(rows) * columns);
      const double fair = std::max(1.0, static_cast<double>(rows) * columns / kClusters);
      EXPECT_LE(static_cast<double>(*std::max_element(busy.begin(), busy.end())), 1.25 * fair + 1);
    }
  }
}

TEST(TokenMatchTiles, RefuseWhatDoesNotFit) {
  const at::Tensor x = at::ones({4, 8});
  EXPECT_THROW(best_destinations(x, at::ones({4, 7})), c10::Error);
  EXPECT_THROW(best_destinations(x, at::ones({4, 8}, at::kDouble)), c10::Error);
  EXPECT_THROW(best_destinations(x, x.t().contiguous().t()), c10::Error);
  EXPECT_THROW(best_destinations(x, x.narrow(0, 0, 0)), c10::Error);
}

}  // namespace
}  // namespace vggt
