#pragma once
// The powers of two of Note [Splitting].

#include <cuda_fp16.h>

namespace vggt {

/// e of a head with this largest number.
__device__ __forceinline__ int split_exponent(float largest) {
  return largest == 0 ? 0 : 14 - ilogbf(largest);
}

/// Two numbers, already scaled, as pairs of their high and of their low parts.
struct SplitPair {
  __half2 high, low;
};
__device__ __forceinline__ SplitPair split_pair(float a, float b) {
  const __half2 high = __floats2half2_rn(a, b);
  const float2 taken = __half22float2(high);
  return {high, __floats2half2_rn(a - taken.x, b - taken.y)};
}

}  // namespace vggt
