#pragma once
// The inner loops of the CPU kernel: the two products and the exponential, templated on the vector operations
// V of one instruction set (see cpu_tile.h).
//
// Operands of the products lie in words of 32 bits: a number in fp32, or a pair of numbers in bf16 that
// follow each other in the sum, the first in the lower half. Words are held in floats, and only ever moved.

#include <utility>

#include "attention/cpu/cpu_kernel.h"
#include "attention/state.h"

namespace vggt::tile {

template <class V>
constexpr int64_t kWidth = 2 * V::kLanes;  // columns of a micro-tile

/// What V multiplies where it takes fp32.
struct Fp32Operands {
  using Element = float;
  static constexpr int kPerWord = 1;  // numbers of a word
};

/// Rounds n up to whole micro-tiles.
template <class V>
constexpr int64_t padded(int64_t n) {
  return (n + kWidth<V> - 1) / kWidth<V> * kWidth<V>;
}

/// Words of n numbers.
template <class V>
constexpr int64_t words_of(int64_t n) {
  return (n + V::kPerWord - 1) / V::kPerWord;
}

/// c plus the products of the numbers in words a and b.
template <class V>
typename V::Reg dot(typename V::Reg a, typename V::Reg b, typename V::Reg c) {
  if constexpr (V::kPerWord == 1) {
    return V::mul_add(a, b, c);
  } else {
    return V::dot_pairs(a, b, c);
  }
}

/// Scores of R queries and one panel of keys. q [words,R] interleaved, panel [words,kWidth], scores
/// [R,kKeyTile].
template <class V, int R>
void score_tile(const float* q, const float* panel, int64_t words, float* scores) {
  typename V::Reg acc[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0);
  for (int64_t d = 0; d < words; ++d, q += R, panel += kWidth<V>) {
    const auto k0 = V::load(panel), k1 = V::load(panel + V::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto a = V::set(q[r]);
      acc[r][0] = dot<V>(a, k0, acc[r][0]);
      acc[r][1] = dot<V>(a, k1, acc[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    V::store(scores + r * kKeyTile, acc[r][0]);
    V::store(scores + r * kKeyTile + V::kLanes, acc[r][1]);
  }
}

/// w = alpha·w + p·v for R queries and kWidth columns. p [R,kKeyTile], v [words, step v_step], w [R, step
/// w_step]. Sums start afresh every kSumRun words: their rounding errors then grow with the square root of
/// the run, which costs 1 % of the time and halves the error of the output.
template <class V, int R>
void value_tile(const float* p, const float* v, int64_t v_step, int64_t words, const float* alpha, float* w,
                int64_t w_step) {
  constexpr int64_t kSumRun = 64;
  for (int64_t first = 0; first < words; first += kSumRun) {
    const int64_t count = words - first < kSumRun ? words - first : kSumRun;
    typename V::Reg acc[R][2];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0);
    for (int64_t j = 0; j < count; ++j, ++p, v += v_step) {
      const auto v0 = V::load(v), v1 = V::load(v + V::kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto a = V::set(p[r * kKeyTile]);
        acc[r][0] = dot<V>(a, v0, acc[r][0]);
        acc[r][1] = dot<V>(a, v1, acc[r][1]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float* row = w + r * w_step;
      const auto a = V::set(first == 0 ? alpha[r] : 1.0f);
      V::store(row, V::mul_add(a, V::load(row), acc[r][0]));
      V::store(row + V::kLanes, V::mul_add(a, V::load(row + V::kLanes), acc[r][1]));
    }
  }
}

using ScoreTile = void (*)(const float*, const float*, int64_t, float*);
using ValueTile = void (*)(const float*, const float*, int64_t, int64_t, const float*, float*, int64_t);

/// The micro-tiles for 1 .. kRows queries. Plain arrays: a std::array of these would have functions of one
/// name in every instruction set.
template <class V, class Rows = std::make_integer_sequence<int, V::kRows>>
struct Tiles;
template <class V, int... R>
struct Tiles<V, std::integer_sequence<int, R...>> {
  static constexpr ScoreTile kScore[] = {score_tile<V, R + 1>...};
  static constexpr ValueTile kValue[] = {value_tile<V, R + 1>...};
};

/// exp(scale·(score - m)) as a power of two: exact differences, and log2(e)·scale in two parts, so that the
/// only errors are the difference's rounding, the polynomial's 2e-9 and the last multiplications.
template <class V>
struct Exponential {
  typename V::Reg high, low, least;

  explicit Exponential(float scale) {
    const double factor = static_cast<double>(scale) * 1.4426950408889634;
    const float rounded = static_cast<float>(factor);
    high = V::set(rounded);
    low = V::set(static_cast<float>(factor - rounded));
    // 2^-127 and below comes out as an exact 0.
    least = V::set(static_cast<float>(-127.0 / factor));
  }

  /// Of non-positive differences score - m; NaN stays NaN.
  typename V::Reg operator()(typename V::Reg difference) const {
    const auto x = V::max(least, difference);
    // Adding 1.5·2^23 rounds to a whole number, which is then also in the low bits.
    const auto shifter = V::set(12582912.0f);
    const auto shifted = V::mul_add(x, high, shifter);
    const auto whole = V::sub(shifted, shifter);
    const auto f = V::mul_add(x, low, V::mul_sub(x, high, whole));
    auto y = V::set(1.535336188e-04f);  // 2^f on [-0.5, 0.5], relative error 2e-9 (Lawson's iteration)
    y = V::mul_add(y, f, V::set(1.339887442e-03f));
    y = V::mul_add(y, f, V::set(9.618437358e-03f));
    y = V::mul_add(y, f, V::set(5.550332471e-02f));
    y = V::mul_add(y, f, V::set(2.402264791e-01f));
    y = V::mul_add(y, f, V::set(6.931472029e-01f));
    y = V::mul_add(y, f, V::set(1.0f));
    return V::mul(y, V::power_of_two(shifted));
  }
};

/// Turns the scores of one query [keys], padded, into weights relative to the new maximum, in words; brings m
/// (of unscaled scores) and s up to date. Returns the factor for the state's earlier sums. In bf16 s sums the
/// weights before they are rounded, so that log s is exact to 1e-6, and `rounded` sums them as they are
/// multiplied with v: it normalises the output, which would else be off by 2^-8 where many keys have the same
/// weight.
template <class V>
float weigh_row(float* scores, int64_t keys, const Exponential<V>& exponential, float scale, float& m,
                float& s, float& rounded) {
  constexpr int kLanes = V::kLanes;
  const int64_t width = padded<V>(keys);
  for (int64_t j = keys; j < width; ++j) scores[j] = -INFINITY;
  auto top0 = V::set(m), top1 = top0;
  for (int64_t j = 0; j < width; j += 2 * kLanes) {
    top0 = V::max(V::load(scores + j), top0);
    top1 = V::max(V::load(scores + j + kLanes), top1);
  }
  const float top = V::largest(V::max(top0, top1));
  const auto base = V::set(anchor(top));
  auto sum0 = V::set(0), sum1 = sum0, sum_rounded = sum0;
  for (int64_t j = 0; j < width; j += 2 * kLanes) {
    const auto p0 = exponential(V::sub(V::load(scores + j), base));
    const auto p1 = exponential(V::sub(V::load(scores + j + kLanes), base));
    if constexpr (V::kPerWord == 1) {
      V::store(scores + j, p0);
      V::store(scores + j + kLanes, p1);
    } else {
      const auto both = V::pairs(p0, p1);
      V::store(scores + j / 2, both);  // over scores that are read already
      sum_rounded = V::dot_pairs(both, V::pairs(V::set(1), V::set(1)), sum_rounded);
    }
    sum0 = V::add(sum0, p0);
    sum1 = V::add(sum1, p1);
  }
  const float alpha = top == m && m == anchor(m) ? 1.0f : shift(m, top, scale);
  s = s * alpha + V::sum(V::add(sum0, sum1));
  if constexpr (V::kPerWord > 1) rounded = rounded * alpha + V::sum(sum_rounded);
  m = top;
  return alpha;
}

}  // namespace vggt::tile
