// fp32 attention at fp32's accuracy on Hopper's tensor cores: each product of fp32 matrices is three of fp16.
// See Note [Splitting].
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/hopper/hopper_consumer.cuh"
#include "attention/cuda/hopper/hopper_launch.h"
#include "attention/cuda/hopper/wgmma.cuh"
#include "attention/cuda/split_scale.cuh"
#include "attention/cuda/tensor_tile.h"

namespace vggt {
namespace {

using namespace hopper;

enum Part { kHigh, kLow };

template <class Shape_>
struct SplitConsumer {
  using Shape = Shape_;
  using Out = float;
  using Rows = SplitRows;

  float scores[Shape::kKeys / 2];                          // q·k of a tile, then exp of them
  uint32_t high[Shape::kKeys / 4], low[Shape::kKeys / 4];  // the tile before: exp in pairs of fp16
  float tile[Shape::kDim / 2];                             // w of one tile
  float values[Shape::kDim / 2];                           // w, without the scales
  Rows rows;
  float scale2;
  int group, thread;  // the warpgroup, the thread in it

  // Tensor cores truncate the numbers that they add up: small products come first, to lose little.
  __device__ __forceinline__ void start_scores(const Layout<Shape>& shared, int slot) {
    wgmma_fence();
    constexpr int kOrder[3][2] = {{kLow, kHigh}, {kHigh, kLow}, {kHigh, kHigh}};
#pragma unroll
    for (int product = 0; product < 3; ++product) {
      const uint64_t a =
          matrix_descriptor(shared.queries(group) + kOrder[product][0] * Shape::kQueryPart, 0, kSwizzleBytes);
      const uint64_t b =
          matrix_descriptor(shared.slot(slot) + kOrder[product][1] * Shape::kKeyPart, 0, kSwizzleBytes);
#pragma unroll
      for (int column = 0; column < Shape::kDim; column += 16) {
        multiply<__half>(scores, a + column_offset(column, kGroupQueries) / 16,
                         b + column_offset(column, Shape::kKeys) / 16, product + column > 0);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void score_again(const Layout<Shape>& shared, int slot) {
    for (float& x : scores) x = 0;
#pragma unroll 1
    for (int product = 0; product < 3; ++product) {  // as kOrder
      const int q = product == 0 ? kLow : kHigh, k = product == 1 ? kLow : kHigh;
      multiply_by_warp<__half, Shape>(scores, shared.queries(group) + q * Shape::kQueryPart,
                                      shared.slot(slot) + k * Shape::kKeyPart, thread);
    }
  }

  __device__ __forceinline__ void multiply_part(const uint32_t* weights, uint32_t from, bool first) {
    const uint64_t b = matrix_descriptor(from, Shape::kKeys * kRowBytes, kSwizzleBytes);
#pragma unroll
    for (int key = 0; key < Shape::kKeys; key += 16) {
      multiply_transposed<__half>(tile, weights + key / 4, b + key * kRowBytes / 16, !first || key > 0);
    }
  }

  __device__ __forceinline__ void start_values(const Layout<Shape>& shared, int slot) {
    wgmma_fence();
    const uint32_t v_high = shared.slot(slot), v_low = v_high + Shape::kKeyPart;
    multiply_part(low, v_high, true);
    multiply_part(high, v_low, false);
    multiply_part(high, v_high, false);
    wgmma_commit();
  }

  __device__ __forceinline__ void pin_operands() {
    pin(tile);
    pin(high);
    pin(low);
  }

  __device__ __forceinline__ void pack_weights() {
    split_weights(scores, high, low);
  }

  __device__ __forceinline__ void take_values() {
#pragma unroll
    for (int i = 0; i < Shape::kDim / 2; ++i) values[i] += tile[i];
  }

  __device__ static int exponent(const CudaProblem& p, const BlockWork& work) {
    return value_exponent(p, work) + kSplitLift;
  }
};

template <class C>
__global__ void __launch_bounds__(C::Shape::kThreads, 1)
    split_attention_kernel(const __grid_constant__ CudaProblem p, const __grid_constant__ Maps maps,
                           int items) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  C consumer;
  run_block(p, maps, items, memory, consumer);
#else
  __trap();  // the plan asks for this kernel only where sm90a_built()
#endif
}

template <int kDim, int kKeys, int kSlots>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  using S = Shape<kDim, 2, 2, kKeys, kSlots>;
  const int rows = p.batch * p.heads;
  Maps maps;
  auto map = [&](CUtensorMap& to, const void* data, int tokens, int box) {
    const AttentionStrides dense{static_cast<int64_t>(rows) * tokens * kDim,
                                 static_cast<int64_t>(tokens) * kDim, kDim};
    return make_tensor_map(to, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, data, dense, {2, rows, tokens, kDim, box});
  };
  cudaError_t error = map(maps.q, p.q, p.queries, kGroupQueries);
  if (p.keys == 0) {  // nothing to describe, nothing to load
    maps.k = maps.v = maps.q;
  } else {
    if (error == cudaSuccess) error = map(maps.k, p.k, p.keys, S::kKeys);
    if (error == cudaSuccess) error = map(maps.v, p.v, p.keys, S::kKeys);
  }
  if (error != cudaSuccess) return error;
  return launch_blocks<S>(split_attention_kernel<SplitConsumer<S>>, p, maps, stream);
}

}  // namespace

cudaError_t launch_split_sm90(const CudaProblem& p, cudaStream_t stream) {
  return p.dim == 64 ? launch<64, kSplitTile90.keys, 6>(p, stream)
                     : launch<128, kSplitTile90Wide.keys, 5>(p, stream);
}

}  // namespace vggt
