#pragma once
// How rows of fp32 numbers become pairs of fp16: see Note [Splitting rows].

#include "attention/cuda/split_pair.cuh"
#include "model/layers/split_layout.h"

namespace vggt {

/// Of numbers the largest |x|, as bits, which are ordered as the numbers are where none is negative; infinity
/// and NaN are above all others.
template <int kCount>
__device__ __forceinline__ uint32_t largest_bits(const float (&x)[kCount]) {
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) most = max(most, __float_as_uint(x[i]) & 0x7FFFFFFFu);
  return most;
}

/// The largest over the kWarps neighbouring warps that share a row; all threads of the block call it.
/// of_warp: memory of this call alone, for each warp of the block.
template <int kWarps>
__device__ __forceinline__ uint32_t largest_of_row(uint32_t most, uint32_t* of_warp) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) most = max(most, __shfl_xor_sync(~0u, most, lanes));
  if constexpr (kWarps > 1) {
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) of_warp[warp] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) most = max(most, of_warp[warp / kWarps * kWarps + i]);
  }
  return most;
}

/// 2^exponent, or 0 for a row that is not finite.
__device__ __forceinline__ float row_factor(int exponent) {
  return exponent == kNotFinite ? 0 : __uint_as_float(power_of_two_bits(exponent));
}

/// The parts of x·up. to: where the high part of the first lies, aligned to 8 bytes.
__device__ __forceinline__ void store_parts(const float (&x)[4], float up, __half* to) {
  const SplitPair a = split_pair(x[0] * up, x[1] * up), b = split_pair(x[2] * up, x[3] * up);
  const auto bits = [](const __half2& pair) { return reinterpret_cast<const uint32_t&>(pair); };
  *reinterpret_cast<uint2*>(to) = {bits(a.high), bits(b.high)};
  *reinterpret_cast<uint2*>(to + kSplitColumns) = {bits(a.low), bits(b.low)};
}

}  // namespace vggt
