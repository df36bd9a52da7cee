#pragma once
// The powers of two of Note [Splitting].

#include <cfloat>

#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/split_pair.cuh"

namespace vggt {

/// The factor, without its sign, that turns q·k of p's numbers (parts or not) into a logit in base 2.
__device__ __forceinline__ float logit_scale(const CudaProblem& p, const BlockWork& work) {
  const float scale = fabsf(p.scale) * kLog2E;
  if (!p.largest) return scale;
  const float* largest = p.largest + head_row(p, work);
  const int exponent = split_exponent(largest[0]) + split_exponent(largest[p.batch * p.heads]);
  // Not 0, which a masked logit must not be multiplied by, nor so small that peaks, which are divided by it,
  // overflow: products of parts are below 2^37 (D = 128), so that all weights are 1 here and below. Nor
  // infinite, where q or k is 0.
  return fminf(fmaxf(ldexpf(scale, -exponent), 0x1p-100F), FLT_MAX);
}

/// The exponent e of the values' parts.
__device__ __forceinline__ int value_exponent(const CudaProblem& p, const BlockWork& work) {
  return split_exponent(p.largest[2 * p.batch * p.heads + head_row(p, work)]);
}

constexpr int kSplitLift = 15;  // weights are below 2 (kMost): times 2^kSplitLift they fit fp16

/// The high and low parts of split's weights, times 2^kSplitLift, packed in pairs.
template <int kCount>
__device__ __forceinline__ void split_weights(const float (&weights)[kCount], uint32_t (&high)[kCount / 2],
                                              uint32_t (&low)[kCount / 2]) {
  constexpr float kScale = 1 << kSplitLift;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const SplitPair pair = split_pair(weights[2 * i] * kScale, weights[2 * i + 1] * kScale);
    high[i] = reinterpret_cast<const uint32_t&>(pair.high);
    low[i] = reinterpret_cast<const uint32_t&>(pair.low);
  }
}

}  // namespace vggt
