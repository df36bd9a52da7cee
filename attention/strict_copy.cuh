#pragma once
// How the strict kernel's tiles come to shared memory. Included by strict.cu only.

#include "attention/strict_tile.h"

namespace vggt {

__device__ inline float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ inline void store4(float* to, float4 x) {
  *reinterpret_cast<float4*>(to) = x;
}

/// 16 bytes from global to shared memory, in the background where the chip can; zeros where not valid.
__device__ inline void copy4(float* to, const float* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  store4(to, valid ? load4(from) : float4{0, 0, 0, 0});
#endif
}
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// A thread's share of copying tiles of keys or values: one 16-byte column of every kRowsAtOnce-th row.
template <class Tile>
struct RowCopier {
  static constexpr int kChunks = Tile::kDim / 4, kRowsAtOnce = Tile::kThreads / kChunks;
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
    for (int i = 0; i < Tile::kKeys / kRowsAtOnce; ++i) {
      const bool valid = whole || static_cast<int>(threadIdx.x) / kChunks + i * kRowsAtOnce < rows;
      copy4(to + i * kRowsAtOnce * Tile::kRowStep, from, valid);
      from += kRowsAtOnce * step;
    }
  }
};

/// Queries times the scale, so that scores are logits in base 2. That rounds each product once more, which
/// adds a tenth to the error of the sum; scaling the scores instead would make large ones overflow exp2.
template <class Tile>
__device__ void load_queries(float* shared, const float* from, int64_t step, int rows, float scale2) {
  constexpr int kChunks = Tile::kDim / 4;
  for (int i = threadIdx.x; i < Tile::kQueries * kChunks; i += Tile::kThreads) {
    const int row = i / kChunks, d = i % kChunks * 4;
    float4 x = {0, 0, 0, 0};
    if (row < rows) x = load4(from + row * step + d);
    store4(shared + Tile::kQueryAt + row * Tile::kRowStep + d,
           {scale2 * x.x, scale2 * x.y, scale2 * x.z, scale2 * x.w});
  }
}

/// The part of a warp without queries.
template <class Tile>
__device__ void only_copy(RowCopier<Tile>& keys_in, RowCopier<Tile>& values_in, int keys) {
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
