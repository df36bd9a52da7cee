// bf16 and fp16 attention on Hopper's tensor cores, and turbo: fp32 attention of fp16 parts.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/hopper/hopper_consumer.cuh"
#include "attention/cuda/hopper/hopper_launch.h"
#include "attention/cuda/hopper/wgmma.cuh"
#include "attention/cuda/tensor_tile.h"

namespace vggt {
namespace {

using namespace hopper;

/// T: type of the operands. Out_: type of the output, float where the operands are parts.
template <class T, class Out_, class Shape_>
struct HalfConsumer {
  using Shape = Shape_;
  using Element = T;
  using Out = Out_;
  static constexpr bool kOfParts = std::is_same_v<Out, float>;
  using Rows = std::conditional_t<kOfParts, TurboRows, HalfRows>;

  float scores[Shape::kKeys / 2];      // q·k of a tile, then exp of them
  uint32_t weights[Shape::kKeys / 4];  // the tile before: exp in pairs of T
  float values[Shape::kDim / 2];       // w
  Rows rows;
  float scale2;
  int group, thread;  // the warpgroup, the thread in it

  __device__ __forceinline__ void start_scores(const Layout<Shape>& shared, int slot) {
    wgmma_fence();
    const uint64_t a = matrix_descriptor(shared.queries(group), 0, kSwizzleBytes);
    const uint64_t b = matrix_descriptor(shared.slot(slot), 0, kSwizzleBytes);
#pragma unroll
    for (int column = 0; column < Shape::kDim; column += 16) {
      multiply<T>(scores, a + column_offset(column, kGroupQueries) / 16,
                  b + column_offset(column, Shape::kKeys) / 16, column > 0);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void score_again(const Layout<Shape>& shared, int slot) {
    for (float& x : scores) x = 0;
    multiply_by_warp<T, Shape>(scores, shared.queries(group), shared.slot(slot), thread);
  }

  __device__ __forceinline__ void start_values(const Layout<Shape>& shared, int slot) {
    wgmma_fence();
    const uint64_t b = matrix_descriptor(shared.slot(slot), Shape::kKeys * kRowBytes, kSwizzleBytes);
#pragma unroll
    for (int key = 0; key < Shape::kKeys; key += 16) {
      multiply_transposed<T>(values, weights + key / 4, b + key * kRowBytes / 16, 1);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void pin_operands() {
    pin(values);
    pin(weights);
  }

  __device__ __forceinline__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < Shape::kKeys / 4; ++i) weights[i] = packed_pair<T>(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ __forceinline__ void take_values() {}  // the tensor cores add to them

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return kOfParts ? value_exponent(p, work) : 0;
  }
};

template <class C>
__global__ void __launch_bounds__(C::Shape::kThreads, 1)
    half_kernel(const __grid_constant__ CudaProblem p, const __grid_constant__ Maps maps, int items) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  C consumer;
  run_block(p, maps, items, memory, consumer);
#else
  __trap();  // the plan asks for this kernel only where sm90a_built()
#endif
}

template <class C>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  using S = typename C::Shape;
  const bool fp16 = std::is_same_v<typename C::Element, __half>;
  const CUtensorMapDataType type = fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const TensorBox queries{p.batch, p.heads, p.queries, p.dim, kGroupQueries};
  const TensorBox keys{p.batch, p.heads, p.keys, p.dim, S::kKeys};
  Maps maps;
  cudaError_t error = make_tensor_map(maps.q, type, p.q, p.q_strides, queries);
  if (p.keys == 0) {  // nothing to describe, nothing to load
    maps.k = maps.v = maps.q;
  } else {
    if (error == cudaSuccess) error = make_tensor_map(maps.k, type, p.k, p.k_strides, keys);
    if (error == cudaSuccess) error = make_tensor_map(maps.v, type, p.v, p.v_strides, keys);
  }
  if (error != cudaSuccess) return error;
  return launch_blocks<S>(half_kernel<C>, p, maps, stream);
}

template <class T, class Out>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  return p.dim == 64 ? launch<HalfConsumer<T, Out, Shape<64, 1, 3, kHalfTile90.keys, 12>>>(p, stream)
                     : launch<HalfConsumer<T, Out, Shape<128, 1, 2, kHalfTile90Wide.keys, 6>>>(p, stream);
}

}  // namespace

bool sm90a_built() {
#ifdef VGGT_SM90A
  return true;
#else
  return false;
#endif
}

cudaError_t launch_half_sm90(const CudaProblem& p, cudaStream_t stream) {
  return p.type == CudaElement::bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(p, stream)
                                     : launch<__half, __half>(p, stream);
}

cudaError_t launch_turbo_sm90(const CudaProblem& p, cudaStream_t stream) {
  return launch<__half, float>(p, stream);
}

}  // namespace vggt
