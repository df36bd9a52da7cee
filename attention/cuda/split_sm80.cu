// fp32 attention at fp32's accuracy for any GPU from sm_80 on: each product of fp32 matrices is three of
// fp16. See Note [Splitting].
#include <iterator>

#include "attention/cuda/ampere_block.cuh"
#include "attention/cuda/cuda_launch.h"

namespace vggt {
namespace {

using namespace ampere;

/// A warp's registers. Tensor cores truncate the numbers that they add up. Products with a low part are
/// small, so they have sums of their own, or are added first.
template <class Shape_>
struct SplitWarp {
  using Shape = Shape_;
  using Out = float;
  static constexpr int kGroups = Shape::kGroups, kKeys = Shape::kKeys, kDim = Shape::kDim;

  float scores[kGroups][kKeys / 2];      // q·k of a tile, then exp of them
  float values[kGroups][kDim / 2] = {};  // w, without the scales
  SplitRows rows[kGroups];

  __device__ __forceinline__ void multiply_keys(uint32_t queries, uint32_t keys) {
    float small[kGroups][kKeys / 2];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) scores[g][i] = small[g][i] = 0;
    }
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t a_high[kGroups][4], a_low[kGroups][4];
      load_queries<Shape>(a_high, queries, d);
      load_queries<Shape>(a_low, queries + Shape::kQueryBytes, d);
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        uint32_t b_high[4], b_low[4];
        load_keys<Shape>(b_high, keys, k, d);
        load_keys<Shape>(b_low, keys + Shape::kPartBytes, k, d);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          multiply_square<__half>(scores[g] + k / 2, a_high[g], b_high);
          multiply_square<__half>(small[g] + k / 2, a_low[g], b_high);
          multiply_square<__half>(small[g] + k / 2, a_high[g], b_low);
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) scores[g][i] += small[g][i];
    }
  }

  __device__ __forceinline__ void multiply_values(uint32_t from) {
    uint32_t a_high[kGroups][kKeys / 4], a_low[kGroups][kKeys / 4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) split_weights(scores[g], a_high[g], a_low[g]);
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      float tile[kGroups][8] = {};
      uint32_t b_high[kKeys / 16][4];
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        uint32_t b_low[4];
        load_values<Shape>(b_high[k / 16], from, k, d);
        load_values<Shape>(b_low, from + Shape::kPartBytes, k, d);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          multiply_square<__half>(tile[g], a_low[g] + k / 4, b_high[k / 16]);
          multiply_square<__half>(tile[g], a_high[g] + k / 4, b_low);
        }
      }
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int k = 0; k < kKeys; k += 16)
          multiply_square<__half>(tile[g], a_high[g] + k / 4, b_high[k / 16]);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[g][d / 2 + i] += tile[g][i];
      }
    }
  }

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return value_exponent(p, work) + kSplitLift;
  }
};

}  // namespace

cudaError_t launch_split_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream) {
  constexpr auto& k64 = kSplitTiles80;
  constexpr auto& k128 = kSplitTiles80Wide;
  static_assert(std::size(k64) == 2 && std::size(k128) == 1);
  cudaError_t error = cudaErrorInvalidValue;
  launch_if<SplitWarp<Shape<64, 2, k64[0]>>>(p, tile, stream, error);
  launch_if<SplitWarp<Shape<64, 2, k64[1]>>>(p, tile, stream, error);
  launch_if<SplitWarp<Shape<128, 2, k128[0]>>>(p, tile, stream, error);
  return error;
}

}  // namespace vggt
