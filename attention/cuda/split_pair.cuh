#pragma once
// How fp32 numbers become pairs of fp16, in attention and in linear layers.

#include <cuda_fp16.h>

namespace vggt {

/// The exponent e of Note [Splitting] (split_parts.h) for a head with this largest number, or bound of it.
__device__ __forceinline__ int split_exponent(float largest) {
  return largest == 0 ? 0 : 14 - ilogbf(largest);
}

/// Two scaled numbers: the pair of their high parts, and the pair of their low parts.
struct SplitPair {
  __half2 high, low;
};
__device__ __forceinline__ SplitPair split_pair(float a, float b) {
  const __half2 high = __floats2half2_rn(a, b);
  const float2 taken = __half22float2(high);
  return {high, __floats2half2_rn(a - taken.x, b - taken.y)};
}

}  // namespace vggt
