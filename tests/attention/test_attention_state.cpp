// The state (m, S, W) as a monoid, on the host, without torch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "attention/state.h"

namespace {

constexpr int kDim = 4;
template <class T>
using State = vggt::SoftmaxState<T, kDim>;

template <class T>
struct Keys {
  std::vector<T> logits;
  std::vector<T> values;  // [n,kDim]

  State<T> leaf(int i) const { return State<T>::of(logits[i], &values[i * kDim]); }
  /// One after another.
  State<T> chain(int first, int last) const {
    State<T> state;
    for (int i = first; i < last; ++i) state = merge(state, leaf(i));
    return state;
  }
  /// Halved until single keys remain.
  State<T> tree(int first, int last) const {
    if (last - first == 1) return leaf(first);
    const int middle = (first + last) / 2;
    return merge(tree(first, middle), tree(middle, last));
  }
};

template <class T>
Keys<T> random_keys(int n, double spread, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Keys<T> keys;
  for (int i = 0; i < n; ++i) keys.logits.push_back(static_cast<T>(spread * normal(generator)));
  for (int i = 0; i < n * kDim; ++i) keys.values.push_back(static_cast<T>(normal(generator)));
  return keys;
}

template <class T>
void expect_near(const State<T>& a, const State<T>& b, double relative) {
  EXPECT_EQ(a.m, b.m);
  EXPECT_NEAR(a.s, b.s, relative * a.s);
  for (int i = 0; i < kDim; ++i) EXPECT_NEAR(a.w[i], b.w[i], relative * a.s) << "component " << i;
}

template <class T>
class AttentionState : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionState, Types);

constexpr double kInf = std::numeric_limits<double>::infinity();

TYPED_TEST(AttentionState, IdentityChangesNothing) {
  const auto keys = random_keys<TypeParam>(7, 3, 1);
  const State<TypeParam> a = keys.chain(0, 7), e;
  for (const auto& merged : {merge(a, e), merge(e, a)}) {
    EXPECT_EQ(merged.m, a.m);
    EXPECT_EQ(merged.s, a.s);
    for (int i = 0; i < kDim; ++i) EXPECT_EQ(merged.w[i], a.w[i]);
  }
  const auto none = merge(e, e);
  EXPECT_EQ(none.m, -kInf);
  EXPECT_EQ(none.s, 0);
  TypeParam out[kDim] = {1, 1, 1, 1};
  finalise(none, out);
  for (TypeParam x : out) EXPECT_EQ(x, 0);
  EXPECT_EQ(vggt::log_sum_exp(none.m, none.s), -kInf);
}

TYPED_TEST(AttentionState, CommutativeToTheBit) {
  const auto keys = random_keys<TypeParam>(20, 10, 2);
  for (int cut = 0; cut <= 20; ++cut) {
    const auto a = keys.chain(0, cut), b = keys.chain(cut, 20);
    const auto ab = merge(a, b), ba = merge(b, a);
    EXPECT_EQ(ab.m, ba.m);
    EXPECT_EQ(ab.s, ba.s);
    for (int i = 0; i < kDim; ++i) EXPECT_EQ(ab.w[i], ba.w[i]);
  }
}

TYPED_TEST(AttentionState, Associative) {
  const double u = std::numeric_limits<TypeParam>::epsilon();
  for (int seed = 0; seed < 50; ++seed) {
    const auto keys = random_keys<TypeParam>(30, 8, seed);
    const auto a = keys.chain(0, 11), b = keys.chain(11, 13), c = keys.chain(13, 30);
    expect_near(merge(merge(a, b), c), merge(a, merge(b, c)), 64 * u);
  }
}

TYPED_TEST(AttentionState, SplitsOfTheKeysDoNotMatter) {
  const double u = std::numeric_limits<TypeParam>::epsilon();
  const auto keys = random_keys<TypeParam>(130, 5, 3);
  const auto whole = keys.tree(0, 130);
  for (int cut = 1; cut < 130; ++cut)
    expect_near(merge(keys.tree(cut, 130), keys.tree(0, cut)), whole, 64 * u);
}

TYPED_TEST(AttentionState, EqualsTheSoftmaxSum) {
  const auto keys = random_keys<TypeParam>(100, 4, 4);
  long double s = 0, w[kDim] = {};
  for (int i = 0; i < 100; ++i) {
    const long double e = std::exp(static_cast<long double>(keys.logits[i]));
    s += e;
    for (int d = 0; d < kDim; ++d) w[d] += e * keys.values[i * kDim + d];
  }
  const auto state = keys.tree(0, 100);
  TypeParam out[kDim];
  finalise(state, out);
  const double tolerance = 64 * std::numeric_limits<TypeParam>::epsilon();
  for (int d = 0; d < kDim; ++d) EXPECT_NEAR(out[d], static_cast<double>(w[d] / s), tolerance);
  EXPECT_NEAR(vggt::log_sum_exp(state.m, state.s), static_cast<double>(std::log(s)), 8 * tolerance);
}

TYPED_TEST(AttentionState, HugeAndInfiniteLogits) {
  const TypeParam v[kDim] = {1, 2, 3, 4};
  const TypeParam low = -static_cast<TypeParam>(kInf);
  const auto masked = State<TypeParam>::of(low, v);
  EXPECT_EQ(masked.s, 0);
  const auto state =
      merge(masked, merge(State<TypeParam>::of(TypeParam(1e30), v), State<TypeParam>::of(-1e30, v)));
  EXPECT_EQ(state.s, 1);
  for (int d = 0; d < kDim; ++d) EXPECT_EQ(state.w[d], v[d]);
  EXPECT_EQ(merge(masked, masked).s, 0);
}

TYPED_TEST(AttentionState, NanSpoilsTheStateItIsIn) {
  const TypeParam v[kDim] = {1, 2, 3, 4};
  const auto good = State<TypeParam>::of(1, v);
  const auto bad = State<TypeParam>::of(std::numeric_limits<TypeParam>::quiet_NaN(), v);
  EXPECT_TRUE(std::isnan(merge(good, bad).s));
  EXPECT_TRUE(std::isnan(merge(bad, good).s));
  EXPECT_TRUE(std::isnan(merge(State<TypeParam>(), bad).w[0]));
}

// Relative error of S over n random keys, largest of several draws.
double tree_error(int n) {
  double worst = 0;
  for (int seed = 0; seed < 5; ++seed) {
    const auto narrow = random_keys<float>(n, 2, seed);
    Keys<double> wide;
    wide.logits.assign(narrow.logits.begin(), narrow.logits.end());
    wide.values.assign(narrow.values.begin(), narrow.values.end());
    const auto a = narrow.tree(0, n);
    const auto b = wide.tree(0, n);
    worst = std::max(worst, std::abs(static_cast<double>(a.s) - b.s) / b.s);
  }
  return worst;
}

TEST(AttentionStateError, OfATreeGrowsNoFasterThanItsDepth) {
  const double u = std::numeric_limits<float>::epsilon() / 2;
  for (int depth = 2; depth <= 18; depth += 4) {
    // Each level: two exponentials, each with the rounding of its argument (logits of a few units), two
    // products and a sum.
    EXPECT_LE(tree_error(1 << depth), 8 * u * depth) << "n = 2^" << depth;
  }
}

}  // namespace
