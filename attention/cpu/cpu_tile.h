#pragma once
// The CPU kernel, templated on the vector operations V of one instruction set. Included by cpu_baseline.cpp,
// cpu_avx2.cpp and cpu_avx512.cpp only; V has internal linkage there, so nothing here is shared between them.

#include <cstring>

#include "attention/cpu/cpu_kernel.h"
#include "attention/cpu/cpu_micro.h"
#include "attention/state.h"

namespace vggt::tile {

/// Packs keys [keys,D] into panels [D,kWidth], the last one filled up with zeros.
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

/// Packs values [keys,D] into panels [keys,kWidth], the last one filled up with zeros.
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

/// Packs queries [queries,D], times the sign of the scale, in groups of kRows, each as [D,rows].
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

/// Scores of single contiguous queries [D] against keys that are not packed. dim: a multiple of kLanes.
template <class V>
void score_row(const float* q, const float* k, int64_t step, int64_t keys, int64_t dim, float* scores) {
  for (int64_t j = 0; j < keys; ++j, k += step) {
    auto sum = V::set(0);
    for (int64_t d = 0; d < dim; d += V::kLanes) sum = V::mul_add(V::load(q + d), V::load(k + d), sum);
    scores[j] = V::sum(sum);
  }
}

/// The thread's buffers, in its scratch memory.
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

/// Takes one packed key tile into the states of all queries of the task.
template <class V>
void attend_tile(const CpuTask& task, int64_t keys, int64_t dim, float scale,
                 const Exponential<V>& exponential, const Buffers& b) {
  constexpr int64_t kColumns = kWidth<V>, kRows = V::kRows;
  const int64_t wide = padded<V>(dim);
  for (int64_t first = 0; first < task.queries; first += kRowTile) {
    const int64_t rows = task.queries - first < kRowTile ? task.queries - first : kRowTile;
    for (int64_t j = 0; j < keys; j += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        Tiles<V>::kScore[count - 1](b.q + (first + r) * dim, b.keys + j * dim, dim,
                                    b.scores + r * kKeyTile + j);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      b.alpha[r] =
          weigh_row<V>(b.scores + r * kKeyTile, keys, exponential, scale, b.m[first + r], b.s[first + r]);
    }
    for (int64_t d = 0; d < wide; d += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        Tiles<V>::kValue[count - 1](b.scores + r * kKeyTile, b.values + d * keys, kColumns, keys, b.alpha + r,
                                    b.w + (first + r) * wide + d, wide);
      }
    }
  }
}

/// Takes one key tile, not packed, into the states of the task's few queries. dim: a multiple of kWidth.
template <class V>
void attend_in_place(const AttentionParams& p, const CpuTask& task, int64_t first_key, int64_t keys,
                     float scale, const Exponential<V>& exponential, const Buffers& b) {
  const float* k = task.k + first_key * p.k_strides.token;
  const float* v = task.v + first_key * p.v_strides.token;
  for (int64_t r = 0; r < task.queries; ++r) {
    float* scores = b.scores + r * kKeyTile;
    score_row<V>(b.q + r * p.dim, k, p.k_strides.token, keys, p.dim, scores);
    b.alpha[r] = weigh_row<V>(scores, keys, exponential, scale, b.m[r], b.s[r]);
  }
  for (int64_t d = 0; d < p.dim; d += kWidth<V>) {
    Tiles<V>::kValue[task.queries - 1](b.scores, v + d, p.v_strides.token, keys, b.alpha, b.w + d, p.dim);
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
  // Packing a key tile costs as much as computing three queries against it, and never pays for less than a
  // panel.
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
