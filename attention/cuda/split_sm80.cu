// fp32 attention at fp32's accuracy for any GPU from sm_80 on: each product of fp32 matrices is three of
// fp16. See Note [Splitting].
#include "attention/cuda/ampere_block.cuh"
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/tensor_tile.h"

namespace vggt {
namespace {

using namespace ampere;

/// A warp's registers. Tensor cores truncate the numbers that they add up. Products with a low part are
/// small, so they have sums of their own, or are added first.
template <int kDim, int kKeys>
struct SplitWarp {
  using Shape = ampere::Shape<kDim, 2, kKeys>;
  using Out = float;

  uint32_t high[kDim / 16][4];  // queries
  uint32_t low;                 // address of their low part
  float scores[kKeys / 2];      // q·k of a tile, then exp of them
  float values[kDim / 2] = {};  // w, without the scales
  SoftmaxRows<0> rows;

  __device__ void take_queries(const HeadRows& q, const BlockWork& work, int first, uint32_t memory) {
    low = memory;
    take_fragments(high, q, work, first);
    copy_low_queries<Shape>(low, q, work, first);
  }

  __device__ void multiply_keys(uint32_t keys) {
    const int lane = threadIdx.x % 32, key = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
    float small[kKeys / 2] = {};
#pragma unroll
    for (float& x : scores) x = 0;
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t a_low[4];
      load_fragments(a_low, unit<Shape::kWarpQueries>(low, lane % 16, d + lane / 16 * 8));
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        uint32_t b_high[4], b_low[4];
        load_fragments(b_high, unit<kKeys>(keys, k + key, d + column));
        load_fragments(b_low, unit<kKeys>(keys + Shape::kPartBytes, k + key, d + column));
        multiply_square<__half>(scores + k / 2, high[d / 16], b_high);
        multiply_square<__half>(small + k / 2, a_low, b_high);
        multiply_square<__half>(small + k / 2, high[d / 16], b_low);
      }
    }
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) scores[i] += small[i];
  }

  __device__ void multiply_values(uint32_t from) {
    const int lane = threadIdx.x % 32, key = lane % 16, column = lane / 16 * 8;
    uint32_t a_high[kKeys / 4], a_low[kKeys / 4];
    split_weights(scores, a_high, a_low);
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      float tile[8] = {};
      uint32_t b_high[kKeys / 16][4];
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        uint32_t b_low[4];
        load_transposed(b_high[k / 16], unit<kKeys>(from, k + key, d + column));
        load_transposed(b_low, unit<kKeys>(from + Shape::kPartBytes, k + key, d + column));
        multiply_square<__half>(tile, a_low + k / 4, b_high[k / 16]);
        multiply_square<__half>(tile, a_high + k / 4, b_low);
      }
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) multiply_square<__half>(tile, a_high + k / 4, b_high[k / 16]);
#pragma unroll
      for (int i = 0; i < 8; ++i) values[d / 2 + i] += tile[i];
    }
  }

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return value_exponent(p, work) + kSplitLift;
  }
};

template <class W>
__global__ void __launch_bounds__(W::Shape::kThreads, 2)
    split_mma_kernel(const __grid_constant__ CudaProblem p) {
  extern __shared__ __align__(kRowBytes) char memory[];
  run_block<W>(p, memory);
}

template <int kDim, int kKeys>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  using W = SplitWarp<kDim, kKeys>;
  return launch_blocks<typename W::Shape>(split_mma_kernel<W>, p, stream);
}

}  // namespace

cudaError_t launch_split_sm80(const CudaProblem& p, cudaStream_t stream) {
  return p.dim == 64 ? launch<64, kSplitTile80.keys>(p, stream)
                     : launch<128, kSplitTile80Wide.keys>(p, stream);
}

}  // namespace vggt
