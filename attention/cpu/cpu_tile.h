#pragma once
// The CPU kernel, templated on the vector operations V of one instruction set and on what it multiplies:
// fp32, or bf16 in pairs (cpu_micro.h). Included by cpu_baseline.cpp, cpu_avx2.cpp, cpu_avx512.cpp and
// cpu_avx512_bf16.cpp only; V has internal linkage there, so nothing here is shared between them.

#include <cstring>

#include "attention/cpu/cpu_kernel.h"
#include "attention/cpu/cpu_micro.h"
#include "attention/state.h"

namespace vggt::tile {

/// Puts a word of a row [D] at `to`: the number `word`, or the pair of that number, filled up with zero. The
/// sign of the numbers changes where flip.
template <class V>
void put_word(const typename V::Element* row, int64_t word, int64_t dim, bool flip, float* to) {
  if constexpr (V::kPerWord == 1) {
    *to = flip ? -row[word] : row[word];
  } else {
    const uint32_t low = row[2 * word], high = 2 * word + 1 < dim ? row[2 * word + 1] : 0;
    const uint32_t pair = (low | high << 16) ^ (flip ? 0x80008000u : 0u);
    std::memcpy(to, &pair, sizeof pair);
  }
}

/// Packs keys [keys,D] into panels [words,kWidth], the last one filled up with zeros.
template <class V>
void pack_keys(const typename V::Element* k, int64_t step, int64_t keys, int64_t dim, float* panels) {
  constexpr int64_t kLanes = V::kLanes, kColumns = kWidth<V>;
  const int64_t words = words_of<V>(dim), whole = dim / V::kPerWord;
  for (int64_t first = 0; first < padded<V>(keys); first += kLanes) {
    const int64_t count = keys - first < kLanes ? keys - first : kLanes;
    const typename V::Element* rows = k + first * step;
    float* columns = panels + first / kColumns * words * kColumns + first % kColumns;  // half a panel
    int64_t d = 0;
    if (count == kLanes) {
      for (; d + kLanes <= whole; d += kLanes)
        V::transpose(rows + d * V::kPerWord, step, columns + d * kColumns, kColumns);
    }
    for (int64_t rest = d; rest < words; ++rest) V::store(columns + rest * kColumns, V::set(0));
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t rest = d; rest < words; ++rest)
        put_word<V>(rows + j * step, rest, dim, false, columns + rest * kColumns + j);
    }
  }
}

/// Packs values [keys,D] into panels [words,kWidth], words along the keys, the last one filled up with zeros.
template <class V>
void pack_values(const typename V::Element* v, int64_t step, int64_t keys, int64_t dim, float* panels) {
  constexpr int64_t kColumns = kWidth<V>;
  for (int64_t first = 0; first < dim; first += kColumns) {
    const int64_t count = dim - first < kColumns ? dim - first : kColumns;
    const typename V::Element* row = v + first;
    for (int64_t j = 0; j < keys; j += V::kPerWord, row += V::kPerWord * step, panels += kColumns) {
      if constexpr (V::kPerWord == 2) {
        V::pair_rows(row, j + 1 < keys ? row + step : nullptr, count, panels);
      } else if (count == kColumns) {
        V::store(panels, V::load(row));
        V::store(panels + V::kLanes, V::load(row + V::kLanes));
      } else {
        for (int64_t d = 0; d < kColumns; ++d) panels[d] = d < count ? row[d] : 0.0f;
      }
    }
  }
}

/// Packs queries [queries,D], of the other sign where flip, in groups of kRows, each as [words,rows].
template <class V>
void pack_queries(const typename V::Element* q, int64_t step, int64_t queries, int64_t dim, bool flip,
                  float* groups) {
  const int64_t words = words_of<V>(dim);
  for (int64_t first = 0; first < queries; first += V::kRows) {
    const int64_t rows = queries - first < V::kRows ? queries - first : V::kRows;
    for (int64_t r = 0; r < rows; ++r) {
      const typename V::Element* row = q + (first + r) * step;
      for (int64_t d = 0; d < words; ++d) put_word<V>(row, d, dim, flip, groups + d * rows + r);
    }
    groups += rows * words;
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
  float *q, *w, *m, *s, *rounded, *scores, *alpha, *keys, *values;
};

template <class V>
Buffers carve(float* scratch, int64_t queries, int64_t dim) {
  auto take = [&](int64_t n) {
    float* mine = scratch;
    scratch += (n + 15) / 16 * 16;
    return mine;
  };
  const int64_t wide = padded<V>(dim), words = words_of<V>(dim);
  Buffers b;
  b.scores = take(kRowTile * kKeyTile);
  b.keys = take(kKeyTile * words);
  b.values = take(words_of<V>(kKeyTile) * wide);
  b.alpha = take(kRowTile);
  b.m = take(queries);
  b.s = take(queries);
  b.rounded = take(queries);
  b.q = take(queries * words);
  b.w = take(queries * wide);
  return b;
}

/// Takes one packed key tile into the states of all queries of the task.
template <class V>
void attend_tile(const CpuTask& task, int64_t keys, int64_t dim, float scale,
                 const Exponential<V>& exponential, const Buffers& b) {
  constexpr int64_t kColumns = kWidth<V>, kRows = V::kRows;
  const int64_t wide = padded<V>(dim), words = words_of<V>(dim), key_words = words_of<V>(keys);
  for (int64_t first = 0; first < task.queries; first += kRowTile) {
    const int64_t rows = task.queries - first < kRowTile ? task.queries - first : kRowTile;
    for (int64_t j = 0; j < keys; j += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        Tiles<V>::kScore[count - 1](b.q + (first + r) * words, b.keys + j * words, words,
                                    b.scores + r * kKeyTile + j);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      b.alpha[r] = weigh_row<V>(b.scores + r * kKeyTile, keys, exponential, scale, b.m[first + r],
                                b.s[first + r], b.rounded[first + r]);
    }
    for (int64_t d = 0; d < wide; d += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t count = rows - r < kRows ? rows - r : kRows;
        Tiles<V>::kValue[count - 1](b.scores + r * kKeyTile, b.values + d * key_words, kColumns, key_words,
                                    b.alpha + r, b.w + (first + r) * wide + d, wide);
      }
    }
  }
}

/// Whether keys and values stay as they are. Packing a key tile costs as much as computing three queries
/// against it, and never pays for less than a panel. In bf16 the values' pairs would still have to be made.
/// The sums round otherwise, so that how queries are divided and keys come must not decide it.
template <class V>
bool takes_in_place(const AttentionParams& p, const CpuTask& task) {
  if (V::kPerWord > 1 || p.rounded) return false;
  const bool few = task.sequence <= 3 || (task.sequence <= V::kRows && task.keys <= kWidth<V> / 4);
  return few && padded<V>(p.dim) == p.dim;
}

/// Takes one key tile in fp32, not packed, into the states of the task's few queries. dim: a multiple of
/// kWidth.
template <class V>
void attend_in_place(const AttentionParams& p, const CpuTask& task, int64_t first_key, int64_t keys,
                     float scale, const Exponential<V>& exponential, const Buffers& b) {
  const float* k = static_cast<const float*>(task.k) + first_key * p.k_strides.token;
  const float* v = static_cast<const float*>(task.v) + first_key * p.v_strides.token;
  for (int64_t r = 0; r < task.queries; ++r) {
    float* scores = b.scores + r * kKeyTile;
    score_row<V>(b.q + r * p.dim, k, p.k_strides.token, keys, p.dim, scores);
    b.alpha[r] = weigh_row<V>(scores, keys, exponential, scale, b.m[r], b.s[r], b.rounded[r]);
  }
  for (int64_t d = 0; d < p.dim; d += kWidth<V>) {
    Tiles<V>::kValue[task.queries - 1](b.scores, v + d, p.v_strides.token, keys, b.alpha, b.w + d, p.dim);
  }
}

/// Moves the states from where the call before kept them, or to there for the next one.
template <class V>
void move_states(const AttentionParams& p, const CpuTask& task, const Buffers& b, bool keep) {
  const auto move = [&](float* kept, float* own, int64_t count) {
    std::memcpy(keep ? kept : own, keep ? own : kept, count * sizeof(float));
  };
  move(task.m, b.m, task.queries);
  move(task.s, b.s, task.queries);
  move(task.rounded, b.rounded, task.queries);
  for (int64_t r = 0; r < task.queries; ++r)
    move(task.w + r * p.out_strides.token, b.w + r * padded<V>(p.dim), p.dim);
}

/// Writes what the call wants of the finished states.
template <class V>
void write_results(const AttentionParams& p, const CpuTask& task, float scale, const Buffers& b) {
  const int64_t wide = padded<V>(p.dim);
  for (int64_t r = 0; r < task.queries; ++r) {
    const float m = b.m[r] * scale, s = b.s[r];
    const float* w = b.w + r * wide;
    if (task.out) {
      auto* out = static_cast<typename V::Element*>(task.out) + r * p.out_strides.token;
      const float factor = normaliser(V::kPerWord == 1 ? s : b.rounded[r]);
      if constexpr (V::kPerWord == 1) {
        for (int64_t d = 0; d < p.dim; ++d) out[d] = w[d] * factor;
      } else {
        V::round_row(w, factor, p.dim, out);
      }
    }
    if (task.w) {  // w/s is the output: of rounded weights w is brought to the scale of the exact ones' s
      float* to = task.w + r * p.out_strides.token;
      const float factor = V::kPerWord == 1 ? 1.0f : s * normaliser(b.rounded[r]);
      for (int64_t d = 0; d < p.dim; ++d) to[d] = w[d] * factor;
    }
    if (task.lse) task.lse[r] = log_sum_exp(m, s);
    if (task.m) task.m[r] = m;
    if (task.s) task.s[r] = s;
  }
}

template <class V>
void attend(const AttentionParams& p, const CpuTask& task, float* scratch) {
  const bool flip = p.scale < 0;
  const float scale = flip ? -p.scale : p.scale;
  const int64_t wide = padded<V>(p.dim);
  const auto* q = static_cast<const typename V::Element*>(task.q);
  const auto* k = static_cast<const typename V::Element*>(task.k);
  const auto* v = static_cast<const typename V::Element*>(task.v);
  const Buffers b = carve<V>(scratch, task.queries, p.dim);
  const Exponential<V> exponential(scale);
  for (int64_t r = 0; r < task.queries; ++r) {
    b.m[r] = -INFINITY;
    b.s[r] = b.rounded[r] = 0;
  }
  std::memset(b.w, 0, task.queries * wide * sizeof(float));
  if (!p.begins) move_states<V>(p, task, b, /*keep=*/false);
  const bool in_place = takes_in_place<V>(p, task);
  if (in_place) {
    for (int64_t r = 0; r < task.queries; ++r) {
      for (int64_t d = 0; d < p.dim; ++d)
        put_word<V>(q + r * p.q_strides.token, d, p.dim, flip, b.q + r * p.dim + d);
    }
  } else {
    pack_queries<V>(q, p.q_strides.token, task.queries, p.dim, flip, b.q);
  }
  for (int64_t first = 0; first < task.keys; first += kKeyTile) {
    const int64_t keys = task.keys - first < kKeyTile ? task.keys - first : kKeyTile;
    if (in_place) {
      if constexpr (V::kPerWord == 1) attend_in_place<V>(p, task, first, keys, scale, exponential, b);
    } else {
      pack_keys<V>(k + first * p.k_strides.token, p.k_strides.token, keys, p.dim, b.keys);
      pack_values<V>(v + first * p.v_strides.token, p.v_strides.token, keys, p.dim, b.values);
      attend_tile<V>(task, keys, p.dim, scale, exponential, b);
    }
  }
  if (p.ends) {
    write_results<V>(p, task, scale, b);
  } else {
    move_states<V>(p, task, b, /*keep=*/true);
  }
}

}  // namespace vggt::tile
