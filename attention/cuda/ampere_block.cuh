#pragma once
// The blocks of the kernels for any GPU from sm_80 on. A warp takes 16 queries. Tiles of keys and values come
// by asynchronous copies, each copied while the tile before it is used.
//
// The type W says what a warp's registers hold and how products are computed from them. It has Shape, scores,
// values, rows, take_queries(), multiply_keys(), multiply_values(), and exponent() for write_row().

#include <climits>

#include "attention/cuda/ampere.cuh"
#include "attention/cuda/half_rows.cuh"
#include "attention/cuda/swizzle.h"

namespace vggt::ampere {

/// kParts: matrices of 16-bit numbers that make up a tile, one behind the other. The low part of queries lies
/// in shared memory, since registers do not suffice for both parts.
template <int kDim_, int kParts_, int kKeys_>
struct Shape {
  static constexpr int kDim = kDim_, kParts = kParts_, kKeys = kKeys_;
  static constexpr int kQueries = 64, kWarpQueries = 16, kThreads = kQueries / kWarpQueries * 32;
  static constexpr int kPartBytes = kKeys * kDim * 2, kTileBytes = kParts * kPartBytes;
  static constexpr int kWarpBytes = (kParts - 1) * kWarpQueries * kDim * 2;  // of low queries
  static constexpr int kSharedBytes = 4 * kTileBytes + kQueries / kWarpQueries * kWarpBytes;
};

/// 16-bit numbers of one head.
struct HeadRows {
  const uint16_t* data;
  int64_t token, part;  // steps, in elements

  __device__ HeadRows(const void* base, const CudaProblem& p, const AttentionStrides& strides,
                      const BlockWork& work)
      : data(static_cast<const uint16_t*>(base) + work.batch * strides.batch + work.head * strides.head),
        token(strides.token),
        part(p.batch * strides.batch) {}
};

/// The address of number `column` (a multiple of 8) of row `row`, in a matrix with kRows rows.
template <int kRows>
__device__ __forceinline__ uint32_t unit(uint32_t matrix, int row, int column) {
  return matrix + column_offset(column / 64 * 64, kRows) + swizzled_offset(row, column % 64 * 2);
}

/// Keys and values of two tiles in turn, and low queries, in blocks of 64 columns, swizzled as swizzle.h
/// says.
template <class S>
struct Tiles {
  uint32_t base;

  __device__ uint32_t keys(int tile) const { return base + tile % 2 * 2 * S::kTileBytes; }
  __device__ uint32_t values(int tile) const { return keys(tile) + S::kTileBytes; }

  __device__ uint32_t queries(int warp) const { return base + 4 * S::kTileBytes + warp * S::kWarpBytes; }

  /// Starts to copy a tile from row `first` on; rows from number `rows` on become zeros.
  __device__ static void start_copy(uint32_t to, const HeadRows& from, int first, int rows) {
#pragma unroll 1  // or the addresses of all copies take registers
    for (int part = 0; part < S::kParts; ++part) {
      for (int i = threadIdx.x; i < S::kKeys * S::kDim / 8; i += S::kThreads) {
        const int row = i / (S::kDim / 8), column = i % (S::kDim / 8) * 8;
        const bool present = row < rows;
        const uint16_t* unit_from =
            from.data + part * from.part + (first + (present ? row : 0)) * from.token + column;
        copy_unit(unit<S::kKeys>(to + part * S::kPartBytes, row, column), unit_from, present);
      }
    }
  }
};

/// The high part of a warp's 16 queries from number `first` of the block on, as fragments.
template <int kSteps>
__device__ __forceinline__ void take_fragments(uint32_t (&to)[kSteps][4], const HeadRows& q,
                                               const BlockWork& work, int first) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kSteps * 4; ++i) {
    const int query = first + lane / 4 + i % 2 * 8;
    const int column = i / 4 * 16 + i % 4 / 2 * 8 + lane % 4 * 2;
    const uint16_t* from = q.data + (work.first_query + query) * q.token + column;
    to[i / 4][i % 4] = query < work.queries ? *reinterpret_cast<const uint32_t*>(from) : 0;
  }
}

/// Starts to copy the low part of these queries.
template <class S>
__device__ __forceinline__ void copy_low_queries(uint32_t to, const HeadRows& q, const BlockWork& work,
                                                 int first) {
  for (int i = threadIdx.x % 32; i < S::kWarpQueries * S::kDim / 8; i += 32) {
    const int row = i / (S::kDim / 8), column = i % (S::kDim / 8) * 8, query = first + row;
    const bool present = query < work.queries;
    const uint16_t* from = q.data + q.part + (work.first_query + (present ? query : 0)) * q.token + column;
    copy_unit(unit<S::kWarpQueries>(to, row, column), from, present);
  }
}

/// d [16,16] += a [16,16] · b [16,16].
template <class T>
__device__ __forceinline__ void multiply_square(float* d, const uint32_t* a, const uint32_t* b) {
  multiply<T>(d, a, b);
  multiply<T>(d + 4, a, b + 2);
}

/// Logits to weights; `left` keys of the tile exist.
template <class W>
__device__ __forceinline__ void weigh(W& w, float scale2, bool negative, int left) {
  using S = typename W::Shape;
  if (negative) {
#pragma unroll
    for (float& x : w.scores) x = -x;
  }
  if (left < S::kKeys) {
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      if (i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 >= left) w.scores[i] = -INFINITY;
    }
  }
  float factor[2];
  if (w.rows.raise(w.scores, scale2, factor)) {
#pragma unroll
    for (int i = 0; i < S::kDim / 2; ++i) w.values[i] *= factor[i / 2 % 2];
  }
  w.rows.exponentiate(w.scores, scale2);
}

/// A whole block; shared memory of Shape::kSharedBytes.
template <class W>
__device__ __forceinline__ void run_block(const CudaProblem& p, char* memory) {
#if __CUDA_ARCH__ >= 800
  using S = typename W::Shape;
  const Tiles<S> tiles{shared_address(memory)};
  const BlockWork work = work_of_block(p, {S::kQueries, S::kKeys}, blockIdx.x);
  if (work.queries == 0) return;
  const HeadRows k(p.k, p, p.k_strides, work), v(p.v, p, p.v_strides, work);
  auto start = [&](int tile) {
    const int first = tile * S::kKeys, rows = work.keys - first;
    if (rows > 0) {
      tiles.start_copy(tiles.keys(tile), k, work.first_key + first, rows);
      tiles.start_copy(tiles.values(tile), v, work.first_key + first, rows);
    }
    commit_copies();
  };
  const float scale2 = logit_scale(p, work);
  const int first_query = threadIdx.x / 32 * S::kWarpQueries;
  W warp;
  warp.take_queries(HeadRows(p.q, p, p.q_strides, work), work, first_query, tiles.queries(threadIdx.x / 32));
  start(0);
  for (int tile = 0; tile * S::kKeys < work.keys; ++tile) {
    start(tile + 1);
    wait_copies<1>();
    __syncthreads();
    warp.multiply_keys(tiles.keys(tile));
    weigh(warp, scale2, p.scale < 0, work.keys - tile * S::kKeys);
    warp.multiply_values(tiles.values(tile));
    __syncthreads();
  }
  wait_copies<0>();  // of queries, where there are no keys
  warp.rows.join_columns();
  const int exponent = warp.exponent(p, work);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int lane = threadIdx.x % 32, query = first_query + lane / 4 + row * 8;
    if (query < work.queries)
      write_row<typename W::Out>(p, work, query, row, lane % 4 * 2, scale2, warp.rows, warp.values, exponent);
  }
#else
  __trap();  // the plan asks for these kernels from sm_80 on
#endif
}

template <class S>
cudaError_t launch_blocks(void (*kernel)(CudaProblem), const CudaProblem& p, cudaStream_t stream) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  const int64_t blocks = blocks_of(p, S::kQueries);
  if (error != cudaSuccess || blocks > INT_MAX) return error != cudaSuccess ? error : cudaErrorInvalidValue;
  kernel<<<static_cast<unsigned>(blocks), S::kThreads, S::kSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace vggt::ampere
