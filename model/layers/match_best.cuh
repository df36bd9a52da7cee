#pragma once
// The best candidates of a thread's two rows of a tile, and the keys of match_kernels.h.

#include <cmath>
#include <cstdint>

namespace vggt {

/// Bits that are ordered as the numbers are; -0 counts as 0.
__device__ __forceinline__ uint32_t ordered_bits(float x) {
  const uint32_t bits = __float_as_uint(x + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered_bits(uint32_t bits) {
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}
__device__ __forceinline__ uint64_t match_key(float score, int place) {
  return uint64_t{ordered_bits(score)} << 32 | ~static_cast<uint32_t>(place);
}

/// Tiles come in the order of their columns. Four neighbouring lanes share two rows, of whose tiles each has
/// a part of the columns, as the accumulators of wgmma have them.
class BestOfRows {
 public:
  /// scores: of columns `first` + 8·i + {0, 1}; there are `columns` in all. Numbers beyond them are lost.
  template <int kCount>
  __device__ __forceinline__ void take(float (&scores)[kCount], int first, int tile_end, int columns) {
    if (tile_end > columns) {  // the same for all threads
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (first + i / 4 * 8 + i % 2 >= columns) scores[i] = -INFINITY;
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float most = fmaxf(scores[2 * row], scores[2 * row + 1]);  // which leaves out NaN
#pragma unroll
      for (int i = 4 + 2 * row; i < kCount; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      // Where no lane has a better one than all lanes had before, which is most often so, it need not be
      // found.
      if (most > bar_[row]) {
        int at = 0;
#pragma unroll
        for (int i = kCount - 4; i >= 0; i -= 4) {
          if (scores[i + 2 * row + 1] == most) at = 2 * i + 1;
          if (scores[i + 2 * row] == most) at = 2 * i;
        }
        score_[row] = most;
        place_[row] = first + at;
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      bar_[row] = fmaxf(bar_[row], fmaxf(most, __shfl_xor_sync(~0u, most, 2)));
    }
  }

  /// Improves the keys of rows `row` and `row` + 8 of `rows`, and begins anew.
  __device__ __forceinline__ void merge_into(uint64_t* keys, int row, int rows, int first_place) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint64_t key = match_key(score_[i], first_place + place_[i]);
#pragma unroll
      for (int lanes = 1; lanes < 4; lanes *= 2)
        key = max(key,
                  static_cast<uint64_t>(__shfl_xor_sync(~0u, static_cast<unsigned long long>(key), lanes)));
      // A row without any score keeps the key that it began with.
      if (threadIdx.x % 4 == 0 && row + 8 * i < rows && bar_[i] > -INFINITY)
        atomicMax(reinterpret_cast<unsigned long long*>(keys + row + 8 * i), key);
      score_[i] = bar_[i] = -INFINITY;
      place_[i] = 0;
    }
  }

 private:
  float score_[2] = {-INFINITY, -INFINITY};
  float bar_[2] = {-INFINITY, -INFINITY};  // the best of the four lanes
  int place_[2] = {0, 0};
};

}  // namespace vggt
