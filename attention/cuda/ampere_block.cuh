#pragma once
// The blocks of the kernels for any GPU from sm_80 on: four warps, each with 16 or 32 queries, which lie in
// shared memory as all operands do. Tiles of keys and values come by asynchronous copies, each copied while
// the tile before it is used. A fragment of keys or values serves all queries of its warp: with 32 of them,
// half as much comes from shared memory for a product.
//
// The type W says what a warp's registers hold and how products are computed from them. It has Shape, Out,
// scores, values, rows, multiply_keys(), multiply_values(), and exponent() for write_row().

#include <climits>

#include "attention/cuda/ampere.cuh"
#include "attention/cuda/half_rows.cuh"
#include "attention/cuda/swizzle.h"
#include "attention/cuda/tensor_tile.h"

namespace vggt::ampere {

/// kParts: matrices of 16-bit numbers that make up a tile, one behind the other.
template <int kDim_, int kParts_, CudaTile kTile_>
struct Shape {
  static constexpr CudaTile kTile = kTile_;
  static constexpr int kDim = kDim_, kParts = kParts_, kQueries = kTile.queries, kKeys = kTile.keys;
  static constexpr int kThreads = kThreads80, kWarpQueries = kQueries / (kThreads / 32);
  static constexpr int kGroups = kWarpQueries / 16;  // of 16 queries, the rows of a product
  static constexpr int kQueryBytes = kQueries * kDim * 2, kPartBytes = kKeys * kDim * 2;  // of a part
  static constexpr int kTileBytes = kParts * kPartBytes;
  static constexpr int kSharedBytes = shared_bytes80(kTile, kDim, kParts);
  static_assert(kSharedBytes == 4 * kTileBytes + kParts * kQueryBytes);
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

/// What a thread copies of every tile of keys or values: the same 8 columns of every kStep-th row.
template <class S>
struct TileCopy {
  static constexpr int kUnits = S::kDim / 8, kStep = S::kThreads / kUnits;
  static_assert(kStep % 8 == 0, "so that swizzling moves all rows of a thread alike");

  const uint16_t* from;  // of the first tile
  int64_t token, part;

  __device__ TileCopy(const HeadRows& rows, int first) : token(rows.token), part(rows.part) {
    from = rows.data + (first + row()) * token + column();
  }

  __device__ static int row() { return threadIdx.x / kUnits; }
  __device__ static int column() { return threadIdx.x % kUnits * 8; }

  /// Starts to copy a tile, of `keys` rows in all; rows beyond them become zeros.
  __device__ __forceinline__ void start(uint32_t memory, int tile, int keys) const {
    const uint16_t* first = from + static_cast<int64_t>(tile) * S::kKeys * token;
    const uint32_t to = unit<S::kKeys>(memory, row(), column());
    const int left = keys - tile * S::kKeys - row();
#pragma unroll
    for (int i = 0; i < S::kKeys; i += kStep) {
      const bool present = i < left;
      const uint16_t* unit_from = present ? first + i * token : from;
#pragma unroll
      for (int p = 0; p < S::kParts; ++p)
        copy_unit(to + p * S::kPartBytes + i * kRowBytes, unit_from + p * part, present);
    }
  }
};

/// Copies a block's queries to shared memory, with another sign where `negative`.
template <class S>
__device__ __forceinline__ void take_queries(char* memory, const HeadRows& q, const BlockWork& work,
                                             bool negative) {
  const uint32_t sign = negative ? 0x80008000u : 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < S::kParts * S::kQueries * S::kDim / 8; i += S::kThreads) {
    const int column = i % (S::kDim / 8) * 8, row = i / (S::kDim / 8) % S::kQueries,
              part = i / (S::kDim / 8) / S::kQueries;
    uint4 x = {};
    if (row < work.queries)
      x = *reinterpret_cast<const uint4*>(q.data + part * q.part + (work.first_query + row) * q.token +
                                          column);
    *reinterpret_cast<uint4*>(memory + unit<S::kQueries>(part * S::kQueryBytes, row, column)) = {
        x.x ^ sign, x.y ^ sign, x.z ^ sign, x.w ^ sign};
  }
}

/// Where a thread finds its rows of fragments: its address for the first fragment of a matrix.
template <class S>
struct FragmentRows {
  uint32_t queries, keys, values;

  __device__ explicit FragmentRows(uint32_t memory) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    keys = unit<S::kKeys>(memory, lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
    values = unit<S::kKeys>(memory + 2 * S::kTileBytes, lane % 16, lane / 16 * 8);
    queries =
        unit<S::kQueries>(memory + 4 * S::kTileBytes, warp * S::kWarpQueries + lane % 16, lane / 16 * 8);
  }
};

template <class S>
__device__ __forceinline__ void load_queries(uint32_t (&a)[S::kGroups][4], uint32_t first, int column) {
#pragma unroll
  for (int g = 0; g < S::kGroups; ++g) load_fragments(a[g], fragment<S::kQueries>(first, g * 16, column));
}
template <class S>
__device__ __forceinline__ void load_keys(uint32_t (&b)[4], uint32_t first, int key, int column) {
  load_fragments(b, fragment<S::kKeys>(first, key, column));
}
template <class S>
__device__ __forceinline__ void load_values(uint32_t (&b)[4], uint32_t first, int key, int column) {
  load_transposed(b, fragment<S::kKeys>(first, key, column));
}

/// Logits to weights; `left` keys of the tile exist.
template <class W>
__device__ __forceinline__ void weigh(W& w, float scale2, int left) {
  using S = typename W::Shape;
  if (left < S::kKeys) {
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      const bool missing = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 >= left;
#pragma unroll
      for (int g = 0; g < S::kGroups; ++g) w.scores[g][i] = missing ? -INFINITY : w.scores[g][i];
    }
  }
  bool behind = false;
#pragma unroll
  for (int g = 0; g < S::kGroups; ++g) behind |= w.rows[g].lags(w.scores[g], scale2);
  if (__any_sync(~0u, behind)) {
#pragma unroll
    for (int g = 0; g < S::kGroups; ++g) {
      float factor[2];
      w.rows[g].rise(w.scores[g], scale2, factor);
#pragma unroll
      for (int i = 0; i < S::kDim / 2; ++i) w.values[g][i] *= factor[i / 2 % 2];
    }
  }
#pragma unroll
  for (int g = 0; g < S::kGroups; ++g) w.rows[g].weigh(w.scores[g], scale2);
}

/// A whole block; shared memory of Shape::kSharedBytes.
template <class W>
__device__ __forceinline__ void run_block(const CudaProblem& p, char* memory) {
#if __CUDA_ARCH__ >= 800
  using S = typename W::Shape;
  const BlockWork work = work_of_block(p, {S::kQueries, S::kKeys}, blockIdx.x);
  if (work.queries == 0) return;
  const uint32_t keys = shared_address(memory), values = keys + 2 * S::kTileBytes;
  const FragmentRows<S> rows(keys);
  const TileCopy<S> k(HeadRows(p.k, p, p.k_strides, work), work.first_key);
  const TileCopy<S> v(HeadRows(p.v, p, p.v_strides, work), work.first_key);
  auto start = [&](int tile) {
    if (tile * S::kKeys < work.keys) {
      k.start(keys + tile % 2 * S::kTileBytes, tile, work.keys);
      v.start(values + tile % 2 * S::kTileBytes, tile, work.keys);
    }
    commit_copies();
  };
  start(0);
  take_queries<S>(memory + 4 * S::kTileBytes, HeadRows(p.q, p, p.q_strides, work), work, p.scale < 0);
  const float scale2 = logit_scale(p, work);
  W warp;
  for (int tile = 0; tile * S::kKeys < work.keys; ++tile) {
    wait_copies<0>();
    __syncthreads();  // the tile is there, and all warps are done with the one before
    start(tile + 1);
    warp.multiply_keys(rows.queries, rows.keys + tile % 2 * S::kTileBytes);
    weigh(warp, scale2, work.keys - tile * S::kKeys);
    warp.multiply_values(rows.values + tile % 2 * S::kTileBytes);
  }
  // Worked out once more, so that the loop keeps no registers for it.
  unsigned index = blockIdx.x;
  asm volatile("" : "+r"(index));
  const BlockWork finished = work_of_block(p, {S::kQueries, S::kKeys}, index);
  const int exponent = warp.exponent(p, finished);
#pragma unroll
  for (int g = 0; g < S::kGroups; ++g) {
    warp.rows[g].join_columns();
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int lane = threadIdx.x % 32,
                query = threadIdx.x / 32 * S::kWarpQueries + g * 16 + lane / 4 + row * 8;
      if (query < finished.queries)
        write_row<typename W::Out>(p, finished, query, row, lane % 4 * 2, scale2, warp.rows[g],
                                   warp.values[g], exponent);
    }
  }
#else
  __trap();  // the plan asks for these kernels from sm_80 on
#endif
}

template <class W>
__global__ void __launch_bounds__(W::Shape::kThreads, blocks80(W::Shape::kTile, W::Shape::kParts))
    mma_kernel(const __grid_constant__ CudaProblem p) {
  extern __shared__ __align__(kSwizzleBytes) char memory[];
  run_block<W>(p, memory);
}

/// Starts the kernel of a call if it is for this head dim and tile.
template <class W>
void launch_if(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream, cudaError_t& error) {
  using S = typename W::Shape;
  if (p.dim != S::kDim || tile != S::kTile) return;
  error = cudaFuncSetAttribute(mma_kernel<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  const int64_t blocks = blocks_of(p, S::kQueries);
  if (error == cudaSuccess && blocks > INT_MAX) error = cudaErrorInvalidValue;
  if (error != cudaSuccess) return;
  mma_kernel<W><<<static_cast<unsigned>(blocks), S::kThreads, S::kSharedBytes, stream>>>(p);
  error = cudaGetLastError();
}

}  // namespace vggt::ampere
