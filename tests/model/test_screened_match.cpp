// The most similar rows by products of 8 bits and a bound, against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "model/layers/screened_match.h"

namespace vggt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor unit_rows(int64_t rows, int64_t columns) {
  const at::Tensor x = at::randn({rows, columns});
  return x / x.norm(2, {1}, true);
}

/// Rows near some centres and a common mean, as tokens of a video are.
at::Tensor alike_rows(int64_t rows, int64_t columns, const at::Tensor& centres) {
  const at::Tensor of_row = centres.index_select(0, at::randint(centres.size(0), {rows}, at::kLong)),
                   x = of_row + 0.2 * unit_rows(rows, columns) +
                       0.5 * at::ones({columns}) / std::sqrt(columns);
  return (x / x.norm(2, {1}, true)).contiguous();
}

struct Found {
  at::Tensor score, best, left;
};

Found screened(const at::Tensor& x, const at::Tensor& y) {
  Found found{at::full({x.size(0)}, -7.0F), at::full({x.size(0)}, -3, at::kLong), {}};
  found.left = match_screened(x, y, found.score, found.best);
  return found;
}

/// How far below the largest product in float64 the chosen ones are, at most, and their scores off.
std::tuple<double, double> losses(const at::Tensor& x, const at::Tensor& y, const Found& found) {
  const at::Tensor exact = at::mm(x.to(at::kDouble), y.to(at::kDouble).t()),  // [s,d]
      chosen = exact.gather(1, found.best.unsqueeze(1)).squeeze(1);
  return {(std::get<0>(exact.max(1)) - chosen).max().item<double>(),
          (found.score.to(at::kDouble) - chosen).abs().max().item<double>()};
}

class ScreenedMatch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_screen_matches()) GTEST_SKIP() << "no AVX-512 with products of 8 bits";
    at::manual_seed(5);
  }
};

TEST_F(ScreenedMatch, FindsTheBestOfRowsThatAreAlike) {
  for (const auto& [s, d, columns] :
       {std::tuple{1000, 5003, 256}, std::tuple{301, 2500, 1024}, std::tuple{97, 999, 37}}) {
    const at::Tensor centres = unit_rows(400, columns), x = alike_rows(s, columns, centres),
                     y = alike_rows(d, columns, centres);
    const Found found = screened(x, y);
    EXPECT_EQ(found.left.size(0), 0) << s;
    const auto [lost, off] = losses(x, y, found);
    EXPECT_LE(lost, 3e-7) << s;
    EXPECT_LE(off, 3e-7) << s;
  }
}

TEST_F(ScreenedMatch, FindsTheBestOfRowsOfManyLengths) {
  // Factors of 2, so that the products in float64 are those of unit rows times them.
  const at::Tensor x = unit_rows(200, 64) * at::pow(2, at::randint(-20, 20, {200, 1}).to(at::kFloat)),
                   y = unit_rows(3000, 64) * at::pow(2, at::randint(-3, 3, {3000, 1}).to(at::kFloat));
  const Found found = screened(x, y);
  EXPECT_EQ(found.left.size(0), 0);
  const at::Tensor length = x.norm(2, {1}, true);
  const Found of_units{found.score / length.squeeze(1), found.best, found.left};
  const auto [lost, off] = losses(x / length, y, of_units);
  EXPECT_LE(lost, 2e-6);
  EXPECT_LE(off, 2e-6);
}

TEST_F(ScreenedMatch, LeavesWhatTheBoundDoesNotTell) {
  const at::Tensor y = unit_rows(500, 32);
  at::Tensor x = unit_rows(60, 32);
  x[3].zero_();
  x[17][31] = NAN;
  x[18][0] = kInf;
  x[59].mul_(1e30F);  // whose square is beyond fp32
  const Found found = screened(x, y);
  EXPECT_TRUE(at::equal(found.left, at::tensor({3, 17, 18, 59}, at::kLong)));
  for (const int64_t row : {3, 17, 18, 59}) {
    EXPECT_EQ(found.score[row].item<float>(), -7) << row;
    EXPECT_EQ(found.best[row].item<int64_t>(), -3) << row;
  }
  // All equal, a NaN among them, zeros: any row may be the best, or none.
  at::Tensor with_nan = y.clone();
  with_nan[499][5] = NAN;
  for (const at::Tensor& all : {y.narrow(0, 0, 1).repeat({500, 1}).contiguous(), with_nan, at::zeros_like(y)})
    EXPECT_EQ(screened(x, all).left.size(0), 60);
  // Numbers whose squares are 0 in fp32.
  for (const float tiny : {1e-14F, 1e-25F, 1e-38F, 1e-41F}) {
    const at::Tensor ordinary = unit_rows(60, 32);
    EXPECT_EQ(screened(ordinary * tiny, y).left.size(0), 60) << tiny;
    EXPECT_EQ(screened(ordinary, y * tiny).left.size(0), 60) << tiny;
  }
  // A few equal ones are told: the first.
  const at::Tensor twice = at::cat({y, y}), some = y.narrow(0, 100, 50).contiguous();
  EXPECT_TRUE(at::equal(screened(some, twice).best, at::arange(100, 150, at::kLong)));
}

TEST_F(ScreenedMatch, GivesARowTheSameWhateverRowsComeBesideIt) {
  const at::Tensor centres = unit_rows(9, 128), x = alike_rows(500, 128, centres),
                   y = alike_rows(3000, 128, centres);
  const Found whole = screened(x, y);
  for (const auto& [first, count] : {std::tuple{1, 1}, std::tuple{7, 50}, std::tuple{123, 377}}) {
    const Found part = screened(x.narrow(0, first, count).contiguous(), y);
    EXPECT_TRUE(at::equal(part.best, whole.best.narrow(0, first, count))) << first;
    EXPECT_TRUE(at::equal(part.score, whole.score.narrow(0, first, count))) << first;
  }
}

}  // namespace
}  // namespace vggt
