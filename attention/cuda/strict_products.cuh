#pragma once
// The strict kernel's two products. Included by strict.cu only.
//
// Each product is a loop over dims or keys. In each step a lane adds the outer product of 8 numbers of its
// rows and 8 of its columns to 64 sums, while the operands of the next step are loaded. `copy(i)` is called
// between steps, for i = 0, 1, ...: it starts a part of the copy of the next tile.

#include "attention/cuda/strict_copy.cuh"

namespace vggt {

__device__ inline float part(const float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

template <class Tile>
using Scores = float[Tile::kRows][Tile::kKeyColumns];

// Rows are taken four by four, back and forth. An operand that the instruction before has read causes no
// conflict of register banks; of the orders that were tried this one has the fewest conflicts.
template <int kColumns>
__device__ inline void add_products(float (&sum)[8][kColumns], const float4 (&rows)[2],
                                    const float (&columns)[kColumns]) {
#pragma unroll
  for (int group = 0; group < 2; ++group) {
#pragma unroll
    for (int step = 0; step < kColumns; ++step) {
      const int c = group == 0 ? step : kColumns - 1 - step;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int e = step % 2 == 0 ? n : 3 - n;
        float& x = sum[4 * group + e][c];
        x = fmaf(part(rows[group], e), columns[c], x);
      }
    }
  }
}

template <class Tile>
__device__ inline void load_keys(float (&keys)[Tile::kKeyColumns], const float* from) {
  if constexpr (Tile::kKeyGroup == 4) {
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; j += 4) {
      const float4 four = load4(from + 8 * j);
      keys[j] = four.x;
      keys[j + 1] = four.y;
      keys[j + 2] = four.z;
      keys[j + 3] = four.w;
    }
  } else {
    const float2 two = *reinterpret_cast<const float2*>(from);
    keys[0] = two.x;
    keys[1] = two.y;
  }
}

template <class Tile, class F>
__device__ inline void multiply_keys(const float* shared, int warp, int lane, Scores<Tile>& x, F copy) {
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kKeyColumns; ++j) x[i][j] = 0;
  }
  const float* q = shared + query_offset<Tile>(warp, lane, 0, 0);
  const float* k = shared + key_offset<Tile>(lane_column(lane), 0);
  float4 query[2][2];
  float keys[2][Tile::kKeyColumns];
  load_keys<Tile>(keys[0], k);
#pragma unroll
  for (int i = 0; i < 2; ++i) query[0][i] = load4(q + 16 * i);
#pragma unroll 4
  for (int d = 0; d < Tile::kDim; d += 2) {
    if (d % 8 == 0) copy(d / 8);
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int next = d + b + 1;
      load_keys<Tile>(keys[1 - b], k + next * Tile::kKeyStep);
#pragma unroll
      for (int i = 0; i < 2; ++i) query[1 - b][i] = load4(q + next * Tile::kQueries + 16 * i);
      add_products(x, query[b], keys[b]);
    }
  }
}

/// W += weights·values, with W in shared memory.
template <class Tile, class F>
__device__ inline void multiply_values(float* shared, int warp, int lane, int keys, const Scores<Tile>& x,
                                       F copy) {
  constexpr int kColumns = 4 * Tile::kQuads;
  float sum[Tile::kRows][kColumns] = {};
  const float* values = shared + value_offset<Tile>(lane, 0, 0);
  const float* weights = shared + weight_offset<Tile>(warp, lane, 0, 0);
  float4 w[2][2], v[2][Tile::kQuads];
#pragma unroll
  for (int c = 0; c < Tile::kQuads; ++c) v[0][c] = load4(values + 32 * c);
#pragma unroll
  for (int slice = 0; slice < Tile::kSlices; ++slice) {
    if (slice * Tile::kSliceKeys >= keys) break;
    __syncwarp();  // the slice before has been read
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int n = 2 * slice + j;
        store4(shared + weight_offset<Tile>(warp, lane, i, key_of(lane, j)),
               {x[4 * i][n], x[4 * i + 1][n], x[4 * i + 2][n], x[4 * i + 3][n]});
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) w[0][i] = load4(weights + 16 * i);
    copy(slice);
#pragma unroll 2
    for (int key = 0; key < Tile::kSliceKeys; key += 2) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int next = key + b + 1;
#pragma unroll
        for (int c = 0; c < Tile::kQuads; ++c)
          v[1 - b][c] = load4(values + (slice * Tile::kSliceKeys + next) * Tile::kRowStep + 32 * c);
#pragma unroll
        for (int i = 0; i < 2; ++i) w[1 - b][i] = load4(weights + next * Tile::kWeightStep + 16 * i);
        float columns[kColumns];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) columns[c] = part(v[b][c / 4], c % 4);
        add_products(sum, w[b], columns);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < Tile::kQuads; ++c) {
      float* at = shared + sum_offset<Tile>(threadIdx.x, i, c);
      const float4 old = load4(at);
      store4(at, {old.x + sum[i][4 * c], old.y + sum[i][4 * c + 1], old.z + sum[i][4 * c + 2],
                  old.w + sum[i][4 * c + 3]});
    }
  }
}

}  // namespace vggt
