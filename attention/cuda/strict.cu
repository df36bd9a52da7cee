// The strict kernel: fp32 and IEEE arithmetic throughout but for exp2 (one MUFU instruction, relative error
// 2e-7), no tensor cores. It is bound by the issue of FFMA; see Note [Strict tiles].
#include <climits>

#include "attention/cuda/built_code.h"
#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/strict_copy.cuh"
#include "attention/cuda/strict_products.cuh"

namespace vggt {
namespace {

// Note [Strict slack]. S and W are kept relative to a row's peak, which follows the largest logit only once
// that is kSlack ahead (in base 2): so most tiles need no lane's maximum but its own. The algebra holds for
// any peak.
constexpr float kSlack = 8;

/// What a lane keeps of its 8 rows.
struct LaneRows {
  float largest[8], s[8];   // of its own keys
  float base[8], limit[8];  // the peak, or 0 where that is -inf; the peak + kSlack

  __device__ float peak(int i) const { return limit[i] == -INFINITY ? -INFINITY : base[i]; }
};

/// Turns scores into weights relative to the peaks, and brings these and S up to date.
template <class Tile>
__device__ inline void weigh(float* shared, Scores<Tile>& x, int lane, int keys, LaneRows& rows) {
  if (keys < Tile::kKeys) {
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) {
      if (key_of(lane, j) < keys) continue;
#pragma unroll
      for (int i = 0; i < Tile::kRows; ++i) x[i][j] = -INFINITY;
    }
  }
  bool behind = false;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    float top[2] = {rows.largest[i], x[i][0]};
#pragma unroll
    for (int j = 1; j < Tile::kKeyColumns; ++j) top[j % 2] = fmaxf(top[j % 2], x[i][j]);
    rows.largest[i] = fmaxf(top[0], top[1]);
    behind |= rows.largest[i] > rows.limit[i];
  }
  if (__any_sync(0xffffffffu, behind)) {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      float top = rows.largest[i];
      // The lanes of a row differ in bits 1 to 3.
#pragma unroll
      for (int bit = 2; bit <= 8; bit *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, bit));
      const float alpha = shift2(rows.peak(i), top);
      rows.base[i] = anchor(top);
      rows.limit[i] = top + kSlack;
      rows.s[i] *= alpha;
#pragma unroll
      for (int c = 0; c < Tile::kQuads; ++c) {
        float* at = shared + sum_offset<Tile>(threadIdx.x, i, c);
        const float4 w = load4(at);
        store4(at, {w.x * alpha, w.y * alpha, w.z * alpha, w.w * alpha});
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    float sum[2] = {};
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) {
      x[i][j] = exp2_of(x[i][j] - rows.base[i]);
      sum[j % 2] += x[i][j];
    }
    rows.s[i] += sum[0] + sum[1];
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
__device__ void finish_chunk(const CudaProblem& p, const BlockWork& work, float* shared, LaneRows& rows,
                             bool first, bool last) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    float s = rows.s[i];
#pragma unroll
    for (int bit = 2; bit <= 8; bit *= 2) s += __shfl_xor_sync(0xffffffffu, s, bit);
    const int row = 32 * warp + row_of(lane, i);
    float* before = shared + Tile::kNumberAt + 2 * row;  // m2 and S
    const float peak = rows.peak(i);
    const float a = first ? 0.0f : shift2(before[0], peak);
    if (!first) s = fmaf(before[1], a, s);
    __syncwarp();
    if (lane_column(lane) == 0) {
      before[0] = peak;
      before[1] = s;
    }
    rows.s[i] = 0;
    float factor = 1;
    if (last) {
      float m2 = rows.largest[i];
#pragma unroll
      for (int bit = 2; bit <= 8; bit *= 2) m2 = fmaxf(m2, __shfl_xor_sync(0xffffffffu, m2, bit));
      const float lowered = shift2(peak, m2);
      if (row < work.queries && lane_column(lane) == 0) write_numbers(p, work, row, m2, s * lowered);
      factor = p.partitions == 1 && p.out ? normaliser(s) : lowered;
    }
    if (row >= work.queries) continue;
#pragma unroll
    for (int c = 0; c < Tile::kQuads; ++c) {
      float4 w = load4(shared + sum_offset<Tile>(threadIdx.x, i, c));
      float* to = wide_row(p, work, row) + dim_of(lane, c);
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
  const BlockWork work = work_of_block(p, {Tile::kQueries, Tile::kKeys}, blockIdx.x);
  if (work.queries == 0) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto at = [&](const void* base, const AttentionStrides& strides, int token) {
    return static_cast<const float*>(base) + work.batch * strides.batch + work.head * strides.head +
           token * strides.token;
  };
  KeyCopier<Tile> keys_in(at(p.k, p.k_strides, work.first_key), p.k_strides.token, shared);
  RowCopier<Tile> values_in(at(p.v, p.v_strides, work.first_key), p.v_strides.token, shared + Tile::kValueAt);

  const int tiles = (work.keys + Tile::kKeys - 1) / Tile::kKeys;
  if (tiles > 0) keys_in.next(work.keys);
  load_queries<Tile>(shared, at(p.q, p.q_strides, work.first_query), p.q_strides.token, work.queries,
                     p.scale * kLog2E);
  clear_sums<Tile>(shared);
  LaneRows rows;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    rows.largest[i] = rows.limit[i] = -INFINITY;
    rows.base[i] = rows.s[i] = 0;
  }

  // The shuffle tells the compiler that the whole warp agrees.
  if (32 * __shfl_sync(0xffffffffu, warp, 0) >= work.queries) {
    only_copy<Tile>(keys_in, values_in, work.keys);
    return;
  }
  using Keys = KeyCopier<Tile>;
  static_assert(RowCopier<Tile>::kParts == Tile::kDim / 8 && Keys::kParts % Tile::kSlices == 0);
  bool first = true;
  for (int tile = 0; tile < tiles; ++tile) {
    const int keys = work.keys - tile * Tile::kKeys;
    wait_for_copies();
    __syncthreads();  // the keys are here, and the values before have been read
    float x[Tile::kRows][Tile::kKeyColumns];
    multiply_keys<Tile>(shared, warp, lane, x, [&](int i) { values_in.part(i, keys); });
    weigh<Tile>(shared, x, lane, keys, rows);
    wait_for_copies();
    __syncthreads();  // the values are here, and the keys have been read
    multiply_values<Tile>(shared, warp, lane, keys, x, [&](int slice) {
      if (tile + 1 == tiles) return;
#pragma unroll
      for (int i = 0; i < Keys::kParts / Tile::kSlices; ++i)
        keys_in.part(slice * (Keys::kParts / Tile::kSlices) + i, keys - Tile::kKeys);
    });
    if ((tile + 1) % (kChunkKeys / Tile::kKeys) == 0 && tile + 1 < tiles) {
      finish_chunk<Tile>(p, work, shared, rows, first, false);
      first = false;
    }
  }
  finish_chunk<Tile>(p, work, shared, rows, first, true);
}

}  // namespace

bool strict_built() {
  return built_code(reinterpret_cast<const void*>(strict_attention_kernel<StrictTile64>)).has_value();
}

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
