#pragma once
// How the strict kernel copies its tiles to shared memory. Included by strict.cu only.

#include "attention/cuda/strict_tile.h"

namespace vggt {

__device__ inline float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ inline void store4(float* to, float4 x) {
  *reinterpret_cast<float4*>(to) = x;
}

/// Copies 16 bytes from global to shared memory, asynchronously where the GPU can; zeros where not valid.
__device__ inline void copy4(float* to, const float* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  store4(to, valid ? load4(from) : float4{0, 0, 0, 0});
#endif
}
/// copy4() of 4 bytes.
__device__ inline void copy1(float* to, const float* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(valid ? 4 : 0)
               : "memory");
#else
  *to = valid ? *from : 0.0f;
#endif
}
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// A thread's share of copying tiles of values: one 16-byte column of every kRowsAtOnce-th row.
template <class Tile>
struct RowCopier {
  static constexpr int kChunks = Tile::kDim / 4, kRowsAtOnce = Tile::kThreads / kChunks;
  static constexpr int kParts = Tile::kKeys / kRowsAtOnce;
  static_assert(Tile::kThreads % kChunks == 0 && Tile::kKeys % kRowsAtOnce == 0);
  const float* from;  // in the next tile
  int64_t step;       // between rows
  float* to;

  __device__ RowCopier(const float* rows, int64_t row_step, float* shared_rows)
      : from(rows + threadIdx.x / kChunks * row_step + threadIdx.x % kChunks * 4),
        step(row_step),
        to(shared_rows + threadIdx.x / kChunks * Tile::kRowStep + threadIdx.x % kChunks * 4) {}

  /// Begins to copy the next tile, of which only `rows` rows exist; the others become zeros.
  __device__ void next(int rows) {
    const bool whole = rows >= Tile::kKeys;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const bool valid = whole || static_cast<int>(threadIdx.x) / kChunks + i * kRowsAtOnce < rows;
      copy4(to + i * kRowsAtOnce * Tile::kRowStep, from, valid);
      from += kRowsAtOnce * step;
    }
  }

  /// Part i of next().
  __device__ void part(int i, int rows) {
    const bool valid = static_cast<int>(threadIdx.x) / kChunks + i * kRowsAtOnce < rows;
    copy4(to + i * kRowsAtOnce * Tile::kRowStep, from, valid);
    from += kRowsAtOnce * step;
  }
};

/// A thread's share of copying tiles of keys, which are transposed on the way: a warp takes kGroup keys, 8
/// apart, and kDims dims at once, which lie in 32 banks (16 where kGroup is 2).
template <class Tile>
struct KeyCopier {
  static constexpr int kGroup = Tile::kKeyGroup, kDims = 32 / kGroup;
  static constexpr int kParts = Tile::kKeys / kGroup / Tile::kWarps;
  const float* from;  // of the next tile
  int64_t step;       // between keys
  float* to;
  int key;  // of part 0

  static __device__ int key_of_part(int part) {
    const int n = part * Tile::kWarps + static_cast<int>(threadIdx.x) / 32;
    return n / 8 * 8 * kGroup + n % 8;
  }
  __device__ KeyCopier(const float* rows, int64_t row_step, float* shared) : step(row_step) {
    const int lane = threadIdx.x % 32, d = lane % kDims;
    key = key_of_part(0) + 8 * (lane / kDims);
    from = rows + key * step + d;
    to = shared + key_offset<Tile>(key, d);
  }

  /// Begins to copy a part of the next tile, of which only `rows` keys exist; the others become zeros.
  __device__ void part(int i, int rows) {
    // Part i's keys are this far from part 0's.
    const int ahead = Tile::kWarps * i / 8 * 8 * kGroup + Tile::kWarps * i % 8;
    const bool valid = key + ahead < rows;
    const float* at = from + ahead * step;
    float* there = to + key_offset<Tile>(ahead, 0) - Tile::kKeyAt;
#pragma unroll
    for (int d = 0; d < Tile::kDim; d += kDims) copy1(there + d * Tile::kKeyStep, at + d, valid);
    if (i == kParts - 1) from += Tile::kKeys * step;
  }
  __device__ void next(int rows) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) part(i, rows);
  }
};

/// Loads queries times the scale, so that scores are logits in base 2. The multiplication rounds each number
/// once more, which adds a tenth to the error of a sum. Scaling the scores instead would let large ones
/// overflow exp2.
template <class Tile>
__device__ void load_queries(float* shared, const float* from, int64_t step, int rows, float scale2) {
  constexpr int kChunks = Tile::kDim / 4;
  for (int i = threadIdx.x; i < Tile::kQueries * kChunks; i += Tile::kThreads) {
    const int row = i % Tile::kQueries, d = i / Tile::kQueries * 4;
    float4 x = {0, 0, 0, 0};
    if (row < rows) x = load4(from + row * step + d);
    float* to = shared + Tile::kQueryAt + d * Tile::kQueries + row;
    to[0] = scale2 * x.x;
    to[Tile::kQueries] = scale2 * x.y;
    to[2 * Tile::kQueries] = scale2 * x.z;
    to[3 * Tile::kQueries] = scale2 * x.w;
  }
}

/// What a warp without queries does: it copies its share of the tiles.
template <class Tile>
__device__ void only_copy(KeyCopier<Tile>& keys_in, RowCopier<Tile>& values_in, int keys) {
  for (; keys > 0; keys -= Tile::kKeys) {
    wait_for_copies();
    __syncthreads();
    values_in.next(keys);
    wait_for_copies();
    __syncthreads();
    if (keys > Tile::kKeys) keys_in.next(keys - Tile::kKeys);
  }
}

}  // namespace vggt
