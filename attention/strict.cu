// The strict kernel: fp32 and IEEE arithmetic throughout but for exp2 (one MUFU instruction, relative error
// 2e-7), no tensor cores. It is bound by the issue of FFMA; see Note [Strict tiles].
#include <climits>

#include "attention/cuda_block.cuh"
#include "attention/strict_copy.cuh"

namespace vggt {
namespace {

__device__ inline float part(const float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/// What a lane keeps of its 8 rows: m2 (the same in the 8 lanes of a row), and its own keys' part of S.
struct LaneRows {
  float m2[8], s[8], alpha[8];  // alpha: what earlier sums have to be multiplied with
};

template <class Tile>
using Scores = float[Tile::kRows][Tile::kKeyColumns];

template <class Tile>
__device__ inline void multiply_keys(const float* shared, int warp, int lane, Scores<Tile>& x) {
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) x[i][j] = 0;
  }
  const float* q = shared + query_offset<Tile>(warp, lane, 0, 0);
  const float* k = shared + key_offset<Tile>(lane, 0, 0);
  // Unrolled further, the two products leave the instruction cache.
#pragma unroll 2
  for (int d = 0; d < Tile::kDim; d += 4) {
    float4 keys[Tile::kKeyColumns];
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) keys[j] = load4(k + 8 * j * Tile::kRowStep + d);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      const float4 query = load4(q + 4 * i * Tile::kRowStep + d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int j = 0; j < Tile::kKeyColumns; ++j) x[i][j] = fmaf(part(query, e), part(keys[j], e), x[i][j]);
      }
    }
  }
}

/// Turns scores into weights relative to the new maxima, and brings m2 and S up to date.
template <class Tile>
__device__ inline void weigh(Scores<Tile>& x, int lane, int keys, LaneRows& rows) {
  if (keys < Tile::kKeys) {
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) {
      if (key_of(lane, j) < keys) continue;
#pragma unroll
      for (int i = 0; i < Tile::kRows; ++i) x[i][j] = -INFINITY;
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    float top = x[i][0];
#pragma unroll
    for (int j = 1; j < Tile::kKeyColumns; ++j) top = fmaxf(top, x[i][j]);
      // The lanes of a row differ in bits 1 to 3.
#pragma unroll
    for (int bit = 2; bit <= 8; bit *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, bit));
    const float m2 = fmaxf(rows.m2[i], top), base = anchor(m2);
    rows.alpha[i] = shift2(rows.m2[i], m2);
    rows.m2[i] = m2;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) {
      x[i][j] = exp2_of(x[i][j] - base);
      sum += x[i][j];
    }
    rows.s[i] = fmaf(rows.s[i], rows.alpha[i], sum);
  }
}

/// W = alpha·W + weights·values, W in shared memory.
template <class Tile>
__device__ inline void multiply_values(float* shared, int warp, int lane, int keys, const Scores<Tile>& x,
                                       const LaneRows& rows) {
  constexpr int kColumns = 4 * Tile::kQuads;
  float sum[Tile::kRows][kColumns] = {};
#pragma unroll
  for (int slice = 0; slice < Tile::kSlices; ++slice) {
    if (slice * Tile::kSliceKeys >= keys) break;
    __syncwarp();  // the slice before has been read
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      *reinterpret_cast<float2*>(shared + weight_offset<Tile>(warp, lane, i, weight_of(lane))) =
          make_float2(x[i][2 * slice], x[i][2 * slice + 1]);
    }
    __syncwarp();
    const float* weights = shared + weight_offset<Tile>(warp, lane, 0, 0);
    const float* values = shared + value_offset<Tile>(lane, slice, 0, 0);
#pragma unroll 1
    for (int place = 0; place < Tile::kSliceKeys; place += 4) {
      float4 v[4][Tile::kQuads];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int c = 0; c < Tile::kQuads; ++c) {
          v[e][c] = load4(values + (place / 2 + key_at(e)) * Tile::kRowStep + 32 * c);
        }
      }
#pragma unroll
      for (int i = 0; i < Tile::kRows; ++i) {
        const float4 w = load4(weights + 4 * i * Tile::kSliceKeys + place);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
          for (int c = 0; c < kColumns; ++c)
            sum[i][c] = fmaf(part(w, e), part(v[e][c / 4], c % 4), sum[i][c]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < Tile::kQuads; ++c) {
      float* at = shared + sum_offset<Tile>(threadIdx.x, i, c);
      const float4 old = load4(at);
      const float a = rows.alpha[i];
      store4(at, {fmaf(old.x, a, sum[i][4 * c]), fmaf(old.y, a, sum[i][4 * c + 1]),
                  fmaf(old.z, a, sum[i][4 * c + 2]), fmaf(old.w, a, sum[i][4 * c + 3])});
    }
  }
}

template <class Tile>
__device__ inline void clear_sums(float* shared) {
#pragma unroll
  for (int i = 0; i < Tile::kRows * Tile::kQuads; ++i) {
    store4(shared + sum_offset<Tile>(threadIdx.x, i / Tile::kQuads, i % Tile::kQuads), {0, 0, 0, 0});
  }
}

/// Adds the sums in shared memory to those of earlier chunks, which lie where the result goes, and clears
/// them. `last`: writes the finished rows instead.
template <class Tile>
__device__ void finish_chunk(const CudaProblem& p, const BlockPlace& place, float* shared, LaneRows& rows,
                             bool first, bool last) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    float s = rows.s[i];
#pragma unroll
    for (int bit = 2; bit <= 8; bit *= 2) s += __shfl_xor_sync(0xffffffffu, s, bit);
    const int row = 32 * warp + row_of(lane, i);
    float* before = shared + Tile::kNumberAt + 2 * row;  // m2 and S
    const float a = first ? 0.0f : shift2(before[0], rows.m2[i]);
    if (!first) s = fmaf(before[1], a, s);
    __syncwarp();
    if (lane_column(lane) == 0) {
      before[0] = rows.m2[i];
      before[1] = s;
    }
    rows.s[i] = 0;
    if (row >= place.queries) continue;
    if (last && lane_column(lane) == 0) write_numbers(p, place, row, rows.m2[i], s);
    const float factor = last ? wide_factor(p, s) : 1.0f;
#pragma unroll
    for (int c = 0; c < Tile::kQuads; ++c) {
      float4 w = load4(shared + sum_offset<Tile>(threadIdx.x, i, c));
      float* to = wide_row(p, place, row) + dim_of(lane, c);
      if (!first) {
        const float4 old = load4(to);
        w = {fmaf(old.x, a, w.x), fmaf(old.y, a, w.y), fmaf(old.z, a, w.z), fmaf(old.w, a, w.w)};
      }
      store4(to, {w.x * factor, w.y * factor, w.z * factor, w.w * factor});
    }
  }
  clear_sums<Tile>(shared);
  __syncwarp();
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 2)
    strict_attention_kernel(const __grid_constant__ CudaProblem p) {
  extern __shared__ __align__(16) float shared[];
  const BlockPlace place = place_of_block(p, {Tile::kQueries, Tile::kKeys}, blockIdx.x);
  if (place.queries == 0) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto at = [&](const void* base, const AttentionStrides& strides, int token) {
    return static_cast<const float*>(base) + place.batch * strides.batch + place.head * strides.head +
           token * strides.token;
  };
  RowCopier<Tile> keys_in(at(p.k, p.k_strides, place.first_key), p.k_strides.token, shared + Tile::kKeyAt);
  RowCopier<Tile> values_in(at(p.v, p.v_strides, place.first_key), p.v_strides.token,
                            shared + Tile::kValueAt);

  const int tiles = (place.keys + Tile::kKeys - 1) / Tile::kKeys;
  if (tiles > 0) keys_in.next(place.keys);
  load_queries<Tile>(shared, at(p.q, p.q_strides, place.first_query), p.q_strides.token, place.queries,
                     p.scale * kLog2E);
  clear_sums<Tile>(shared);
  LaneRows rows;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    rows.m2[i] = -INFINITY;
    rows.s[i] = 0;
  }

  // The shuffle tells the compiler that the whole warp agrees.
  if (32 * __shfl_sync(0xffffffffu, warp, 0) >= place.queries) {
    only_copy<Tile>(keys_in, values_in, place.keys);
    return;
  }
  bool first = true;
  for (int tile = 0; tile < tiles; ++tile) {
    const int keys = place.keys - tile * Tile::kKeys;
    wait_for_copies();
    __syncthreads();  // the keys are here, and the values before have been read
    values_in.next(keys);
    float x[Tile::kRows][Tile::kKeyColumns];
    multiply_keys<Tile>(shared, warp, lane, x);
    weigh<Tile>(x, lane, keys, rows);
    wait_for_copies();
    __syncthreads();  // the values are here, and the keys have been read
    if (tile + 1 < tiles) keys_in.next(keys - Tile::kKeys);
    multiply_values<Tile>(shared, warp, lane, keys, x, rows);
    if ((tile + 1) % (kChunkKeys / Tile::kKeys) == 0 && tile + 1 < tiles) {
      finish_chunk<Tile>(p, place, shared, rows, first, false);
      first = false;
    }
  }
  finish_chunk<Tile>(p, place, shared, rows, first, true);
}

}  // namespace

cudaError_t launch_strict(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream) {
  cudaError_t error = cudaErrorInvalidValue;
  with_strict_tile(p.dim, tile, [&](auto chosen) {
    using Tile = decltype(chosen);
    const int64_t blocks = blocks_of(p, Tile::kQueries);
    if (blocks > INT_MAX) return;
    constexpr int kBytes = Tile::kFloats * static_cast<int>(sizeof(float));
    error = cudaFuncSetAttribute(strict_attention_kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 kBytes);
    if (error != cudaSuccess || blocks == 0) return;
    strict_attention_kernel<Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, kBytes, stream>>>(p);
    error = cudaGetLastError();
  });
  return error;
}

}  // namespace vggt
