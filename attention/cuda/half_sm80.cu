// bf16 and fp16 attention, and turbo: fp32 attention of fp16 parts, for any GPU from sm_80 on.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <iterator>
#include <type_traits>

#include "attention/cuda/ampere_block.cuh"
#include "attention/cuda/built_code.h"
#include "attention/cuda/cuda_launch.h"

namespace vggt {
namespace {

using namespace ampere;

/// A warp's registers. T: type of the operands. Out: type of the output, float where the operands are parts.
template <class T, class Out_, class Shape_>
struct HalfWarp {
  using Shape = Shape_;
  using Out = Out_;
  static constexpr bool kOfParts = std::is_same_v<Out, float>;

  float scores[Shape::kGroups][Shape::kKeys / 2];      // q·k of a tile, then exp of them
  float values[Shape::kGroups][Shape::kDim / 2] = {};  // w
  std::conditional_t<kOfParts, TurboRows, HalfRows> rows[Shape::kGroups];

  __device__ __forceinline__ void multiply_keys(uint32_t queries, uint32_t keys) {
#pragma unroll
    for (int g = 0; g < Shape::kGroups; ++g) {
#pragma unroll
      for (float& x : scores[g]) x = 0;
    }
#pragma unroll
    for (int d = 0; d < Shape::kDim; d += 16) {
      uint32_t a[Shape::kGroups][4];
      load_queries<Shape>(a, queries, d);
#pragma unroll
      for (int k = 0; k < Shape::kKeys; k += 16) {
        uint32_t b[4];
        load_keys<Shape>(b, keys, k, d);
#pragma unroll
        for (int g = 0; g < Shape::kGroups; ++g) multiply_square<T>(scores[g] + k / 2, a[g], b);
      }
    }
  }

  __device__ __forceinline__ void multiply_values(uint32_t from) {
    uint32_t a[Shape::kGroups][Shape::kKeys / 4];
#pragma unroll
    for (int g = 0; g < Shape::kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < Shape::kKeys / 4; ++i)
        a[g][i] = packed_pair<T>(scores[g][2 * i], scores[g][2 * i + 1]);
    }
#pragma unroll
    for (int k = 0; k < Shape::kKeys; k += 16) {
#pragma unroll
      for (int d = 0; d < Shape::kDim; d += 16) {
        uint32_t b[4];
        load_values<Shape>(b, from, k, d);
#pragma unroll
        for (int g = 0; g < Shape::kGroups; ++g) multiply_square<T>(values[g] + d / 2, a[g] + k / 4, b);
      }
    }
  }

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return kOfParts ? value_exponent(p, work) : 0;
  }
};

template <class T, class Out>
cudaError_t launch(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream) {
  constexpr auto& k64 = kHalfTiles80;
  constexpr auto& k128 = kHalfTiles80Wide;
  static_assert(std::size(k64) == 2 && std::size(k128) == 2);
  cudaError_t error = cudaErrorInvalidValue;
  launch_if<HalfWarp<T, Out, Shape<64, 1, k64[0]>>>(p, tile, stream, error);
  launch_if<HalfWarp<T, Out, Shape<64, 1, k64[1]>>>(p, tile, stream, error);
  launch_if<HalfWarp<T, Out, Shape<128, 1, k128[0]>>>(p, tile, stream, error);
  launch_if<HalfWarp<T, Out, Shape<128, 1, k128[1]>>>(p, tile, stream, error);
  return error;
}

}  // namespace

bool sm80_built() {
  using W = HalfWarp<__half, __half, Shape<64, 1, kHalfTiles80[0]>>;
  const auto code = built_code(reinterpret_cast<const void*>(mma_kernel<W>));
  return code && code->ptxVersion >= 80;
}

cudaError_t launch_half_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream) {
  return p.type == CudaElement::bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(p, tile, stream)
                                     : launch<__half, __half>(p, tile, stream);
}

cudaError_t launch_turbo_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream) {
  return launch<__half, float>(p, tile, stream);
}

}  // namespace vggt
