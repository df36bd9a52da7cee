// bf16 and fp16 attention, and turbo: fp32 attention of fp16 parts, for any GPU from sm_80 on.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/cuda/ampere_block.cuh"
#include "attention/cuda/built_code.h"
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/tensor_tile.h"

namespace vggt {
namespace {

using namespace ampere;

/// A warp's registers. T: type of the operands. Out: type of the output, float where the operands are parts.
template <class T, class Out_, int kDim>
struct HalfWarp {
  using Shape = ampere::Shape<kDim, 1, kHalfTile80.keys>;
  using Out = Out_;
  static constexpr bool kOfParts = std::is_same_v<Out, float>;

  uint32_t queries[kDim / 16][4];
  float scores[Shape::kKeys / 2];  // q·k of a tile, then exp of them
  float values[kDim / 2] = {};     // w
  SoftmaxRows<8, kOfParts ? kTurboLift : 0> rows;

  __device__ void take_queries(const HeadRows& q, const BlockWork& work, int first, uint32_t) {
    take_fragments(queries, q, work, first);
  }

  __device__ void multiply_keys(uint32_t keys) {
    const int lane = threadIdx.x % 32, key = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
#pragma unroll
    for (float& x : scores) x = 0;
#pragma unroll
    for (int k = 0; k < Shape::kKeys; k += 16) {
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t b[4];
        load_fragments(b, unit<Shape::kKeys>(keys, k + key, d + column));
        multiply_square<T>(scores + k / 2, queries[d / 16], b);
      }
    }
  }

  __device__ void multiply_values(uint32_t from) {
    const int lane = threadIdx.x % 32, key = lane % 16, column = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < Shape::kKeys; k += 16) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = packed_pair<T>(scores[k / 2 + 2 * i], scores[k / 2 + 2 * i + 1]);
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t b[4];
        load_transposed(b, unit<Shape::kKeys>(from, k + key, d + column));
        multiply_square<T>(values + d / 2, a, b);
      }
    }
  }

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return kOfParts ? value_exponent(p, work) : 0;
  }
};

template <class W>
__global__ void __launch_bounds__(W::Shape::kThreads, W::Shape::kDim == 64 ? 3 : 2)
    half_mma_kernel(const __grid_constant__ CudaProblem p) {
  extern __shared__ __align__(kRowBytes) char memory[];
  run_block<W>(p, memory);
}

template <class T, class Out, int kDim>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  using W = HalfWarp<T, Out, kDim>;
  return launch_blocks<typename W::Shape>(half_mma_kernel<W>, p, stream);
}

template <class T, class Out>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  return p.dim == 64 ? launch<T, Out, 64>(p, stream) : launch<T, Out, 128>(p, stream);
}

}  // namespace

bool sm80_built() {
  const auto code = built_code(reinterpret_cast<const void*>(half_mma_kernel<HalfWarp<__half, __half, 64>>));
  return code && code->ptxVersion >= 80;
}

cudaError_t launch_half_sm80(const CudaProblem& p, cudaStream_t stream) {
  return p.type == CudaElement::bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(p, stream)
                                     : launch<__half, __half>(p, stream);
}

cudaError_t launch_turbo_sm80(const CudaProblem& p, cudaStream_t stream) {
  return launch<__half, float>(p, stream);
}

}  // namespace vggt
