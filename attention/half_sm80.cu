// bf16 and fp16 attention, and turbo: fp32 attention of fp16 parts, for any GPU from sm_80 on: a warp takes
// 16 queries, tiles of keys and values come by asynchronous copies, one ahead of its use.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>

#include "attention/ampere.cuh"
#include "attention/half_rows.cuh"
#include "attention/hopper_layout.h"
#include "attention/split_parts.h"
#include "attention/tensor_tile.h"

namespace vggt {
namespace {

using ampere::copy_unit;
using ampere::load_fragments;
using ampere::load_transposed;
using ampere::multiply;
using hopper::column_offset;
using hopper::kRowBytes;
using hopper::swizzled_offset;

constexpr int kQueries = kHalfTile80.queries, kKeys = kHalfTile80.keys;
constexpr int kWarpQueries = 16, kThreads = kQueries / kWarpQueries * 32;

/// Keys and values of two tiles in turn, in blocks of 64 columns, swizzled as hopper_layout.h says.
template <class T, int kDim>
struct Tiles {
  static constexpr int kTileBytes = kKeys * kDim * 2, kSharedBytes = 4 * kTileBytes;
  uint32_t base;

  __device__ uint32_t keys(int tile) const { return base + tile % 2 * 2 * kTileBytes; }
  __device__ uint32_t values(int tile) const { return keys(tile) + kTileBytes; }

  __device__ static uint32_t unit(uint32_t matrix, int key, int column) {
    return matrix + column_offset(column / 64 * 64, kKeys) + swizzled_offset(key, column % 64 * 2);
  }

  __device__ static void start_copy(uint32_t to, const void* from, int64_t stride, int first, int rows) {
    for (int i = threadIdx.x; i < kKeys * kDim / 8; i += kThreads) {
      const int row = i / (kDim / 8), column = i % (kDim / 8) * 8;
      const bool present = row < rows;
      copy_unit(unit(to, row, column),
                static_cast<const T*>(from) + (first + (present ? row : 0)) * stride + column, present);
    }
  }
};

/// A warp's registers. T: of the operands; Out: of the output, float for operands that are parts.
template <class T, class Out, int kDim>
struct Warp {
  static constexpr bool kOfParts = std::is_same_v<Out, float>;

  uint32_t queries[kDim / 16][4];
  float scores[kKeys / 2];
  float values[kDim / 2] = {};  // w
  SoftmaxRows<0, 8, kOfParts ? kTurboLift : 0> rows;

  __device__ void load_queries(const CudaProblem& p, const BlockPlace& place, int first) {
    const T* q = static_cast<const T*>(p.q) + place.batch * p.q_strides.batch + place.head * p.q_strides.head;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kDim / 16 * 4; ++i) {
      const int query = first + lane / 4 + i % 2 * 8;
      const int column = i / 4 * 16 + i % 4 / 2 * 8 + lane % 4 * 2;
      const T* from = q + (place.first_query + query) * p.q_strides.token + column;
      queries[i / 4][i % 4] = query < place.queries ? *reinterpret_cast<const uint32_t*>(from) : 0;
    }
  }

  __device__ void multiply_keys(uint32_t keys) {
    const int lane = threadIdx.x % 32, key = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
#pragma unroll
    for (float& x : scores) x = 0;
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t b[4];
        load_fragments(b, Tiles<T, kDim>::unit(keys, k + key, d + column));
        multiply<T>(scores + k / 2, queries[d / 16], b);
        multiply<T>(scores + k / 2 + 4, queries[d / 16], b + 2);
      }
    }
  }

  __device__ void multiply_values(uint32_t from) {
    const int lane = threadIdx.x % 32, key = lane % 16, column = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = packed_pair<T>(scores[k / 2 + 2 * i], scores[k / 2 + 2 * i + 1]);
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t b[4];
        load_transposed(b, Tiles<T, kDim>::unit(from, k + key, d + column));
        multiply<T>(values + d / 2, a, b);
        multiply<T>(values + d / 2 + 4, a, b + 2);
      }
    }
  }

  /// Logits to weights; `left` keys of the tile exist.
  __device__ void attend(float scale2, bool negative, int left) {
    if (negative) {
#pragma unroll
      for (float& x : scores) x = -x;
    }
    if (left < kKeys) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        if (i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 >= left) scores[i] = -INFINITY;
      }
    }
    float factor[2];
    if (rows.raise(scores, scale2, factor)) {
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) values[i] *= factor[i / 2 % 2];
    }
    rows.exponentiate(scores, scale2);
  }
};

template <class T, class Out, int kDim>
__global__ void __launch_bounds__(kThreads, kDim == 64 ? 3 : 2)
    half_mma_kernel(const __grid_constant__ CudaProblem p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(kRowBytes) char raw[];
  const Tiles<T, kDim> tiles{ampere::shared_address(raw)};
  const BlockPlace place = place_of_block(p, {kQueries, kKeys}, blockIdx.x);
  if (place.queries == 0) return;
  const T* k = static_cast<const T*>(p.k) + place.batch * p.k_strides.batch + place.head * p.k_strides.head;
  const T* v = static_cast<const T*>(p.v) + place.batch * p.v_strides.batch + place.head * p.v_strides.head;
  auto start = [&](int tile) {
    const int first = tile * kKeys, rows = place.keys - first;
    if (rows > 0) {
      tiles.start_copy(tiles.keys(tile), k, p.k_strides.token, place.first_key + first, rows);
      tiles.start_copy(tiles.values(tile), v, p.v_strides.token, place.first_key + first, rows);
    }
    ampere::commit_copies();
  };
  const float scale2 = logit_scale(p, place);
  const int first_query = threadIdx.x / 32 * kWarpQueries;
  Warp<T, Out, kDim> warp;
  start(0);
  warp.load_queries(p, place, first_query);
  for (int tile = 0; tile * kKeys < place.keys; ++tile) {
    start(tile + 1);
    ampere::wait_copies<1>();
    __syncthreads();
    warp.multiply_keys(tiles.keys(tile));
    warp.attend(scale2, p.scale < 0, place.keys - tile * kKeys);
    warp.multiply_values(tiles.values(tile));
    __syncthreads();
  }
  warp.rows.join_columns();
  const int exponent = warp.kOfParts ? value_exponent(p, place) : 0;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int lane = threadIdx.x % 32, query = first_query + lane / 4 + row * 8;
    if (query < place.queries)
      write_row<Out>(p, place, query, row, lane % 4 * 2, scale2, warp.rows, warp.values, exponent);
  }
#else
  __trap();  // the plan asks for this kernel from sm_80 on
#endif
}

template <class T, class Out, int kDim>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  constexpr int kBytes = Tiles<T, kDim>::kSharedBytes;
  const cudaError_t error = cudaFuncSetAttribute(half_mma_kernel<T, Out, kDim>,
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const int64_t blocks = blocks_of(p, kQueries);
  if (error != cudaSuccess || blocks > INT_MAX) return error != cudaSuccess ? error : cudaErrorInvalidValue;
  half_mma_kernel<T, Out, kDim><<<static_cast<unsigned>(blocks), kThreads, kBytes, stream>>>(p);
  return cudaGetLastError();
}

template <class T, class Out>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  return p.dim == 64 ? launch<T, Out, 64>(p, stream) : launch<T, Out, 128>(p, stream);
}

}  // namespace

bool sm80_built() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, half_mma_kernel<__half, __half, 64>);
  return error == cudaSuccess && attributes.ptxVersion >= 80;
}

cudaError_t launch_half_sm80(const CudaProblem& p, cudaStream_t stream) {
  return p.type == CudaElement::bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(p, stream)
                                     : launch<__half, __half>(p, stream);
}

cudaError_t launch_turbo_sm80(const CudaProblem& p, cudaStream_t stream) {
  return launch<__half, float>(p, stream);
}

}  // namespace vggt
