#pragma once
// How fp32 numbers become pairs of fp16, in attention and in linear layers.

#include <cuda_fp16.h>

namespace vggt {

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
