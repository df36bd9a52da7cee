#pragma once
// The CPU kernel, templated on the vector operations V of one instruction set. Included by cpu_baseline.cpp,
// cpu_avx2.cpp and cpu_avx512.cpp only; V has internal linkage there, so nothing here is shared between them.

#include <array>
#include <cstring>
#include <utility>

#include "attention/cpu_kernel.h"
#include "attention/state.h"

namespace vggt::tile {

template <class V>
constexpr int64_t kWidth = 2 * V::kLanes;  // columns of a micro-tile

/// Rounds n up to whole micro-tiles.
template <class V>
constexpr int64_t padded(int64_t n) {
  return (n + kWidth<V> - 1) / kWidth<V> * kWidth<V>;
}

/// Scores of R queries and one panel of keys. q [D,R] interleaved, panel [D,kWidth], scores [R,kKeyTile].
template <class V, int R>
void score_tile(const float* q, const float* panel, int64_t dim, float* scores) {
  typename V::Reg acc[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0);
  for (int64_t d = 0; d < dim; ++d, q += R, panel += kWidth<V>) {
    const auto k0 = V::load(panel), k1 = V::load(panel + V::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto a = V::set(q[r]);
      acc[r][0] = V::mul_add(a, k0, acc[r][0]);
      acc[r][1] = V::mul_add(a, k1, acc[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    V::store(scores + r * kKeyTile, acc[r][0]);
    V::store(scores + r * kKeyTile + V::kLanes, acc[r][1]);
  }
}

/// w = alpha·w + p·v for R queries and kWidth columns. p [R,kKeyTile], v [keys, step v_step], w [R, step w_step].
/// Sums start afresh every kSumRun keys: their rounding errors then grow with the square root of the run, which
/// costs 1 % of the time and halves the error of the output.
template <class V, int R>
void value_tile(const float* p, const float* v, int64_t v_step, int64_t keys, const float* alpha, float* w,
                int64_t w_step) {
  constexpr int64_t kSumRun = 64;
  for (int64_t first = 0; first < keys; first += kSumRun) {
    const int64_t count = keys - first < kSumRun ? keys - first : kSumRun;
    typename V::Reg acc[R][2];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0);
    for (int64_t j = 0; j < count; ++j, ++p, v += v_step) {
      const auto v0 = V::load(v), v1 = V::load(v + V::kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto a = V::set(p[r * kKeyTile]);
        acc[r][0] = V::mul_add(a, v0, acc[r][0]);
        acc[r][1] = V::mul_add(a, v1, acc[r][1]);
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

template <class V>
using ScoreTile = void (*)(const float*, const float*, int64_t, float*);
template <class V>
using ValueTile = void (*)(const float*, const float*, int64_t, int64_t, const float*, float*, int64_t);

/// The micro-tiles for 1 .. kRows queries.
template <class V, int... R>
constexpr std::array<ScoreTile<V>, sizeof...(R)> score_tiles(std::integer_sequence<int, R...>) {
  return {score_tile<V, R + 1>...};
}
template <class V, int... R>
constexpr std::array<ValueTile<V>, sizeof...(R)> value_tiles(std::integer_sequence<int, R...>) {
  return {value_tile<V, R + 1>...};
}
template <class V>
constexpr auto kScoreTiles = score_tiles<V>(std::make_integer_sequence<int, V::kRows>{});
template <class V>
constexpr auto kValueTiles = value_tiles<V>(std::make_integer_sequence<int, V::kRows>{});

/// exp(scale·(score - m)) as a power of two: exact differences, and log2(e)·scale in two parts, so that the only
/// errors are the difference's rounding, the polynomial's 2e-9 and the last multiplications.
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

/// Turns the scores of one query [keys], padded, into weights relative to the new maximum; brings m (of unscaled
/// scores) and s up to date. Returns what the state's earlier sums were multiplied with.
template <class V>
float weigh_row(float* scores, int64_t keys, const Exponential<V>& exponential, float scale, float& m, float& s) {
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
  auto sum0 = V::set(0), sum1 = sum0;
  for (int64_t j = 0; j < width; j += 2 * kLanes) {
    const auto p0 = exponential(V::sub(V::load(scores + j), base));
    const auto p1 = exponential(V::sub(V::load(scores + j + kLanes), base));
    V::store(scores + j, p0);
    V::store(scores + j + kLanes, p1);
    sum0 = V::add(sum0, p0);
    sum1 = V::add(sum1, p1);
  }
  const float alpha = top == m && m == anchor(m) ? 1.0f : shift(m, top, scale);
  s = s * alpha + V::sum(V::add(sum0, sum1));
  m = top;
  return alpha;
}

/// Keys [keys,D] as panels [D,kWidth], the last one filled up with zeros.
template <class V>
void pack_keys(const float* k, int64_t step, int64_t keys, int64_t dim, float* panels) {
  constexpr int64_t kLanes = V::kLanes, kColumns = kWidth<V>;
  for (int64_t first = 0; first < padded<V>(keys); first += kLanes) {
    const int64_t count = keys - first < kLanes ? keys - first : kLanes;
    const float* rows = k + first * step;
    float* columns = panels + first / kColumns * dim * kColumns + first % kColumns;  // half a panel
    int64_t d = 0;
    if (count == kLanes) {
      for (; d + kLanes <= dim; d += kLanes) V::transpose(rows + d, step, columns + d * kColumns, kColumns);
    }
    for (int64_t rest = d; rest < dim; ++rest) V::store(columns + rest * kColumns, V::set(0));
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t rest = d; rest < dim; ++rest) columns[rest * kColumns + j] = rows[j * step + rest];
    }
  }
}

/// Values [keys,D] as panels [keys,kWidth], the last one filled up with zeros.
template <class V>
void pack_values(const float* v, int64_t step, int64_t keys, int64_t dim, float* panels) {
  constexpr int64_t kColumns = kWidth<V>;
  for (int64_t first = 0; first < dim; first += kColumns) {
    const int64_t count = dim - first < kColumns ? dim - first : kColumns;
    const float* row = v + first;
    for (int64_t j = 0; j < keys; ++j, row += step, panels += kColumns) {
      if (count == kColumns) {
        V::store(panels, V::load(row));
        V::store(panels + V::kLanes, V::load(row + V::kLanes));
      } else {
        for (int64_t d = 0; d < kColumns; ++d) panels[d] = d < count ? row[d] : 0.0f;
      }
    }
  }
}

/// Queries [queries,D] in groups of kRows, each interleaved as [D,rows], with the sign of the scale.
template <class V>
void pack_queries(const float* q, int64_t step, int64_t queries, int64_t dim, float sign, float* groups) {
  for (int64_t first = 0; first < queries; first += V::kRows) {
    const int64_t rows = queries - first < V::kRows ? queries - first : V::kRows;
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = q + (first + r) * step;
      for (int64_t d = 0; d < dim; ++d) groups[d * rows + r] = sign * row[d];
    }
    groups += rows * dim;
  }
}

/// Scores of single queries [D] (contiguous) against keys where they lie. dim: a multiple of kLanes.
template <class V>
void score_row(const float* q, const float* k, int64_t step, int64_t keys, int64_t dim, float* scores) {
  for (int64_t j = 0; j < keys; ++j, k += step) {
    auto sum = V::set(0);
    for (int64_t d = 0; d < dim; d += V::kLanes) sum = V::mul_add(V::load(q + d), V::load(k + d), sum);
    scores[j] = V::sum(sum);
  }
}

/// The thread's buffers, carved out of its scratch.
struct Buffers {
  float *q, *w, *m, *s, *scores, *alpha, *keys, *values;
};

template <class V>
Buffers carve(float* scratch, int64_t queries, int64_t dim) {
  auto take = [&](int64_t n) {
    float* mine = scratch;
    scratch += (n + 15) / 16 * 16;
    return mine;
  };
  const int64_t wide = padded<V>(dim);
  Buffers b;
  b.scores = take(kRowTile * kKeyTile);
  b.keys = take(kKeyTile * dim);
  b.values = take(kKeyTile * wide);
  b.alpha = take(kRowTile);
  b.m = take(queries);
  b.s = take(queries);
  b.q = take(queries * dim);
  b.w = take(queries * wide);
  return b;
}

/// One packed key tile against all queries of the task.
template <class V>
void attend_tile(const CpuTask& task, int64_t keys, int64_t dim, float scale, const Exponential<V>& exponential,
                 const Buffers& b) {
  constexpr int64_t kColumns = kWidth<V>, kRows = V::kRows;
  const int64_t wide = padded<V>(dim);
  for (int64_t first = 0; first < task.queries; first += kRowTile) {
    const int64_t rows = task.queries - first < kRowTile ? task.queries - first : kRowTile;
    for (int64_t j = 0; j < keys; j += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        kScoreTiles<V>[count - 1](b.q + (first + r) * dim, b.keys + j * dim, dim, b.scores + r * kKeyTile + j);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      b.alpha[r] = weigh_row<V>(b.scores + r * kKeyTile, keys, exponential, scale, b.m[first + r], b.s[first + r]);
    }
    for (int64_t d = 0; d < wide; d += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        kValueTiles<V>[count - 1](b.scores + r * kKeyTile, b.values + d * keys, kColumns, keys, b.alpha + r,
                                  b.w + (first + r) * wide + d, wide);
      }
    }
  }
}

/// One key tile, where it lies, against the few queries of the task. dim: a multiple of kWidth.
template <class V>
void attend_in_place(const AttentionParams& p, const CpuTask& task, int64_t first_key, int64_t keys, float scale,
                     const Exponential<V>& exponential, const Buffers& b) {
  const float* k = task.k + first_key * p.k_strides.token;
  const float* v = task.v + first_key * p.v_strides.token;
  for (int64_t r = 0; r < task.queries; ++r) {
    float* scores = b.scores + r * kKeyTile;
    score_row<V>(b.q + r * p.dim, k, p.k_strides.token, keys, p.dim, scores);
    b.alpha[r] = weigh_row<V>(scores, keys, exponential, scale, b.m[r], b.s[r]);
  }
  for (int64_t d = 0; d < p.dim; d += kWidth<V>) {
    kValueTiles<V>[task.queries - 1](b.scores, v + d, p.v_strides.token, keys, b.alpha, b.w + d, p.dim);
  }
}

/// Writes what the call wants of the finished states.
template <class V>
void write_results(const AttentionParams& p, const CpuTask& task, float scale, const Buffers& b) {
  const int64_t wide = padded<V>(p.dim);
  for (int64_t r = 0; r < task.queries; ++r) {
    const float m = b.m[r] * scale, s = b.s[r];
    const float* w = b.w + r * wide;
    if (task.out) {
      float* out = task.out + r * p.out_strides.token;
      const float factor = normaliser(s);
      for (int64_t d = 0; d < p.dim; ++d) out[d] = w[d] * factor;
    }
    if (task.w) std::memcpy(task.w + r * p.out_strides.token, w, p.dim * sizeof(float));
    if (task.lse) task.lse[r] = log_sum_exp(m, s);
    if (task.m) task.m[r] = m;
    if (task.s) task.s[r] = s;
  }
}

template <class V>
void attend(const AttentionParams& p, const CpuTask& task, float* scratch) {
  const float scale = p.scale < 0 ? -p.scale : p.scale, sign = p.scale < 0 ? -1.0f : 1.0f;
  const int64_t wide = padded<V>(p.dim);
  const Buffers b = carve<V>(scratch, task.queries, p.dim);
  const Exponential<V> exponential(scale);
  // Packing a key tile costs about as much as three queries against it; less than a panel of keys never pays.
  const bool few = task.queries <= 3 || (task.queries <= V::kRows && task.keys <= kWidth<V> / 4);
  const bool in_place = few && wide == p.dim;
  for (int64_t r = 0; r < task.queries; ++r) {
    b.m[r] = -INFINITY;
    b.s[r] = 0;
  }
  std::memset(b.w, 0, task.queries * wide * sizeof(float));
  if (in_place) {
    for (int64_t r = 0; r < task.queries; ++r) {
      for (int64_t d = 0; d < p.dim; ++d) b.q[r * p.dim + d] = sign * task.q[r * p.q_strides.token + d];
    }
  } else {
    pack_queries<V>(task.q, p.q_strides.token, task.queries, p.dim, sign, b.q);
  }
  for (int64_t first = 0; first < task.keys; first += kKeyTile) {
    const int64_t keys = task.keys - first < kKeyTile ? task.keys - first : kKeyTile;
    if (in_place) {
      attend_in_place<V>(p, task, first, keys, scale, exponential, b);
    } else {
      pack_keys<V>(task.k + first * p.k_strides.token, p.k_strides.token, keys, p.dim, b.keys);
      pack_values<V>(task.v + first * p.v_strides.token, p.v_strides.token, keys, p.dim, b.values);
      attend_tile<V>(task, keys, p.dim, scale, exponential, b);
    }
  }
  write_results<V>(p, task, scale, b);
}

}  // namespace vggt::tile
