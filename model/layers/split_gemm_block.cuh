#pragma once
// A block of the split GEMM: one thread keeps a ring of slots filled, two warpgroups multiply and add up.
// See Note [Splitting rows].
#include <cuda_fp16.h>

#include "attention/cuda/hopper/tensor_map.h"
#include "attention/cuda/hopper/wgmma.cuh"
#include "model/layers/gemm_ring.cuh"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"

namespace vggt::split {

using namespace gemm;

inline constexpr int kTile = kGemmTile;
inline constexpr int kChain = 64;  // columns of x that the tensor cores sum before fp32 takes over
inline constexpr int kBoxBytes = kTile * kRowBytes;    // 32 columns of x, high and low
inline constexpr int kBoxes = kChain / kSplitColumns;  // of a chain
inline constexpr int kPartBytes = kSplitColumns * 2;
using SplitRing = Ring<kBoxes * kBoxBytes, 2 * kBoxes * kBoxBytes, 3>;

/// Chains of a tile; an even number, as consumers take two at a time.
constexpr int chains_of(int columns) {
  return 2 * divide_up(columns, 2 * kChain);
}

inline cudaError_t map_rows(CUtensorMap& map, const SplitMatrix& m, int rows_of_box) {
  const int width = static_cast<int>(split_width(m.columns));
  const int64_t all = int64_t{m.rows} * width;
  return make_tensor_map(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, m.parts, {all, all, width},
                         {1, 1, m.rows, width, rows_of_box});
}
template <int kBlocks>
cudaError_t map_operands(GemmMaps& maps, const SplitMatrix& x, const SplitMatrix& weight) {
  const cudaError_t error = map_rows(maps.x, x, kTile);
  return error == cudaSuccess ? map_rows(maps.weight, weight, kTile / kBlocks) : error;
}

/// The rows of x that a chain's columns of the weight belong to: see SplitGemm.
struct Taps {
  int chains;       // of a tap
  int across, row;  // taps of a row of the map; from the last one to the next row's first, in rows of x
};

/// Each block loads its own rows of x, and its share of the weight's rows to all blocks of the cluster.
template <int kBlocks>
__device__ __forceinline__ void produce(const GemmMaps& maps, Walk<kBlocks> walk, int chains, Taps taps,
                                        SplitRing ring) {
  constexpr int kShare = kTile / kBlocks;
  const int share = walk.rank * kShare;
  for (; !walk.done(); walk.advance()) {
    const int of_weight = walk.column_tile * kTile;
    int row = walk.row_tile * kTile, of_tap = 0, across = 0;
#pragma unroll 1
    for (int chain = 0; chain < chains; ++chain) {
      wait(ring.free(ring.slot), ring.phase ^ 1);
      const uint32_t full = ring.full(ring.slot);
      arrive_expecting(full, SplitRing::kSlotBytes);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        const int of_x = (of_tap * kBoxes + box) * 2 * kSplitColumns;
        const int column = (chain * kBoxes + box) * 2 * kSplitColumns;
        const uint32_t weight = ring.weight() + box * kBoxBytes + share * kRowBytes;
        load_box(ring.x() + box * kBoxBytes, &maps.x, full, of_x, row, 0, 0);
        if constexpr (kBlocks == 1) {
          load_box(weight, &maps.weight, full, column, of_weight, 0, 0);
        } else {
          load_box_to((1 << kBlocks) - 1, weight, &maps.weight, full, column, of_weight + share);
        }
      }
      ring.advance();
      if (++of_tap < taps.chains) continue;
      of_tap = 0;
      const bool ends_row = ++across == taps.across;
      row += ends_row ? taps.row : 1;
      if (ends_row) across = 0;
    }
  }
}

/// The products of one chain. Tensor cores cut off bits of what they add up. The small products come first,
/// so that little is cut from the sums.
__device__ __forceinline__ void start_chain(float (&sums)[64], uint32_t x, uint32_t weight) {
  enum Part { kHigh, kLow };
  constexpr int kOrder[3][2] = {{kLow, kHigh}, {kHigh, kLow}, {kHigh, kHigh}};
  const uint64_t a = matrix_descriptor(x, 0, kSwizzleBytes), b = matrix_descriptor(weight, 0, kSwizzleBytes);
  pin(sums);
  wgmma_fence();
#pragma unroll
  for (int product = 0; product < 3; ++product) {
#pragma unroll
    for (int column = 0; column < kChain; column += 16) {
      const int offset = column / kSplitColumns * kBoxBytes + column % kSplitColumns * 2;
      multiply<__half>(sums, a + (offset + kOrder[product][0] * kPartBytes) / 16,
                       b + (offset + kOrder[product][1] * kPartBytes) / 16, product + column > 0);
    }
  }
  wgmma_commit();
}

/// 2^-e in two steps, see half_exponent().
struct Scale {
  float first, second;
};
__device__ __forceinline__ Scale scale_of(int e) {
  const int half = half_exponent(e);
  return {__uint_as_float(power_of_two_bits(-half)), __uint_as_float(power_of_two_bits(half - e))};
}

/// x·2^-(row's exponent)·2^-(column's exponent)
__device__ __forceinline__ float scaled(float x, const Scale& row, const Scale& column) {
  return x * (row.first * column.first) * (row.second * column.second);
}

/// Exponents of a tile's columns: a lane loads those of columns 2·lane and 64 + 2·lane and their neighbours,
/// all at one time, and the warp shares them.
struct ColumnExponents {
  int both[2];  // two in 16 bits each

  __device__ __forceinline__ ColumnExponents(const SplitMatrix& weight, int first, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first + 64 * i + 2 * lane;
      int2 e{};
      if (column < weight.rows) e.x = __ldg(weight.exponents + column);
      if (column + 1 < weight.rows) e.y = __ldg(weight.exponents + column + 1);
      both[i] = (e.x & 0xFFFF) | e.y << 16;
    }
  }
  __device__ __forceinline__ int2 of(int pair, int lane) const {
    const int e = __shfl_sync(~0u, both[pair / 32], pair % 32 + lane);
    return {static_cast<int16_t>(e), e >> 16};
  }
};

/// The scales of a thread's two rows.
struct RowScales {
  Scale of[2];
  __device__ __forceinline__ RowScales(const SplitMatrix& x, int row)
      : of{scale_of(row < x.rows ? x.exponents[row] : 0),
           scale_of(row + 8 < x.rows ? x.exponents[row + 8] : 0)} {}
};

/// Takes the sums of one chain while the products of the next run, and hands a tile's to `output` after its
/// last chain: output(sums, walk, group). The tensor cores so have work at all times, across tiles too.
template <int kBlocks, class Output>
__device__ __forceinline__ void consume(Walk<kBlocks> walk, int chains, SplitRing ring, Output& output) {
  if (walk.done()) return;
  const int group = consumer_group(), lane = threadIdx.x % 32;
  float first[64], second[64], result[64];
  auto clear = [&] {
#pragma unroll
    for (float& x : result) x = 0;
  };
  clear();
  SplitRing used = ring;  // the oldest slot whose products may still be running
  auto start = [&](float(&sums)[64]) {
    wait(ring.full(ring.slot), ring.phase);
    start_chain(sums, ring.x() + group * kGroupRows * kRowBytes, ring.weight());
    ring.advance();
  };
  auto take = [&](float(&sums)[64]) {
    pin(sums);
    if (lane < kBlocks) arrive_at(ring.free(used.slot), lane);
    used.advance();
#pragma unroll
    for (int i = 0; i < 64; ++i) result[i] += sums[i];
  };
  auto write = [&] {
    output(result, walk, group);
    clear();
    walk.advance();
  };
  int left = chains;
  start(first);
#pragma unroll 1
  for (int64_t pairs = walk.tiles() * chains / 2; pairs > 1; --pairs) {
    start(second);
    wgmma_wait<1>();
    take(first);
    start(first);
    wgmma_wait<1>();
    take(second);
    if ((left -= 2) == 0) {
      left = chains;
      write();
    }
    wgmma_wait<0>();  // or the compiler would wait after every product, as the next round takes the results
  }
  start(second);
  wgmma_wait<1>();
  take(first);
  wgmma_wait<0>();
  take(second);
  write();
}

}  // namespace vggt::split
