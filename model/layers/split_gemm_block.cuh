#pragma once
// A block of the split GEMM: one thread keeps a ring of slots filled, two warpgroups multiply and add up.
// See Note [Splitting rows].
#include <cuda_fp16.h>

#include "attention/cuda/hopper/hopper_cluster.cuh"
#include "attention/cuda/hopper/wgmma.cuh"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"

namespace vggt::split {

using namespace hopper;

inline constexpr int kTile = kGemmTile;
inline constexpr int kChain = 64;  // columns of x that the tensor cores sum before fp32 takes over
inline constexpr int kGroups = 2;  // warpgroups, of 64 rows of the tile each
inline constexpr int kGroupThreads = 128, kGroupRows = 64;
inline constexpr int kThreads = (1 + kGroups) * kGroupThreads;
inline constexpr int kBoxBytes = kTile * kRowBytes;        // 32 columns of x, high and low
inline constexpr int kBoxes = kChain / kSplitColumns;      // of a chain
inline constexpr int kSlotBytes = 2 * kBoxes * kBoxBytes;  // of x and of the weight
inline constexpr int kSlots = 3;
inline constexpr int kSharedBytes = kSwizzleBytes + kSlots * (kSlotBytes + 16);
inline constexpr int kPartBytes = kSplitColumns * 2;

struct GemmMaps {
  CUtensorMap x, weight;
};

/// How the product is cut up. An item is one tile of rows and columns for each block of a cluster.
struct Work {
  int items, row_groups, column_groups;
  int chains;  // of an item; an even number, as consumers take two at a time
};

/// Addresses in shared memory.
struct Ring {
  uint32_t base;
  int slot = 0;
  uint32_t phase = 0;

  __device__ uint32_t x() const { return base + slot * kSlotBytes; }
  __device__ uint32_t weight() const { return x() + kBoxes * kBoxBytes; }
  __device__ uint32_t full(int i) const { return base + kSlots * kSlotBytes + 16 * i; }
  __device__ uint32_t free(int i) const { return full(i) + 8; }
  __device__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

/// The cluster's place in the grid, and the block's in the cluster.
template <int kBlocks>
struct Cluster {
  int index = blockIdx.x / kBlocks, rank = blockIdx.x % kBlocks, count = gridDim.x / kBlocks;

  __device__ int first_row(const GemmTile& tile) const { return (tile.row * kBlocks + rank) * kTile; }
};

/// Each block loads its own rows of x, and its share of the weight's rows to all blocks of the cluster.
template <int kBlocks>
__device__ __forceinline__ void produce(const GemmMaps& maps, const Work& work, Ring ring) {
  constexpr int kShare = kTile / kBlocks;
  const Cluster<kBlocks> cluster;
  for (int item = cluster.index; item < work.items; item += cluster.count) {
    const GemmTile tile = gemm_tile(item, work.row_groups, work.column_groups);
    const int row = cluster.first_row(tile), share = cluster.rank * kShare;
#pragma unroll 1
    for (int chain = 0; chain < work.chains; ++chain) {
      wait(ring.free(ring.slot), ring.phase ^ 1);
      const uint32_t full = ring.full(ring.slot);
      arrive_expecting(full, kSlotBytes);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        const int column = (chain * kBoxes + box) * 2 * kSplitColumns;
        const uint32_t weight = ring.weight() + box * kBoxBytes + share * kRowBytes;
        load_box(ring.x() + box * kBoxBytes, &maps.x, full, column, row, 0, 0);
        if constexpr (kBlocks == 1) {
          load_box(weight, &maps.weight, full, column, tile.column * kTile, 0, 0);
        } else {
          load_box_to((1 << kBlocks) - 1, weight, &maps.weight, full, column, tile.column * kTile + share);
        }
      }
      ring.advance();
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

/// A thread's numbers of one tile.
struct Result {
  float sums[64];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& x : sums) x = 0;
  }
  __device__ __forceinline__ void add(const float (&chain)[64]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] += chain[i];
  }
  __device__ __forceinline__ void write(const SplitGemm& gemm, int row, int column) const;
};

/// 2^-e in two steps, see half_exponent().
struct Scale {
  float first, second;
};
__device__ __forceinline__ Scale scale_of(int e) {
  const int half = half_exponent(e);
  return {__uint_as_float(power_of_two_bits(-half)), __uint_as_float(power_of_two_bits(half - e))};
}

__device__ __forceinline__ float scaled(float x, const Scale& row, const Scale& column, float bias) {
  return fmaf(x * (row.first * column.first), row.second * column.second, bias);
}

/// Exponents and bias of a tile's columns: a lane loads those of columns 2·lane and 64 + 2·lane and their
/// neighbours, all at one time, and the warp shares them.
struct ColumnPairs {
  int exponents[2];  // two in 16 bits each
  float2 bias[2];

  __device__ __forceinline__ ColumnPairs(const SplitGemm& gemm, int first, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first + 64 * i + 2 * lane;
      const bool inside = column < gemm.weight.rows;
      const int2 e = inside ? __ldg(reinterpret_cast<const int2*>(gemm.weight.exponents + column)) : int2{};
      bias[i] = inside ? __ldg(reinterpret_cast<const float2*>(gemm.bias + column)) : float2{};
      exponents[i] = (e.x & 0xFFFF) | e.y << 16;
    }
  }
  __device__ __forceinline__ int2 exponents_of(int pair, int lane) const {
    const int both = __shfl_sync(~0u, exponents[pair / 32], pair % 32 + lane);
    return {static_cast<int16_t>(both), both >> 16};
  }
  __device__ __forceinline__ float2 bias_of(int pair, int lane) const {
    const float2 of = bias[pair / 32];
    return {__shfl_sync(~0u, of.x, pair % 32 + lane), __shfl_sync(~0u, of.y, pair % 32 + lane)};
  }
};

__device__ __forceinline__ void Result::write(const SplitGemm& gemm, int row, int column) const {
  const int rows = gemm.x.rows, columns = gemm.weight.rows, lane = threadIdx.x % 32, inner = lane % 4;
  const ColumnPairs pairs(gemm, column - 2 * inner, lane);
  const Scale of_row[2] = {scale_of(row < rows ? gemm.x.exponents[row] : 0),
                           scale_of(row + 8 < rows ? gemm.x.exponents[row + 8] : 0)};
  float* const out = gemm.out + int64_t{row} * columns + column;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int2 e = pairs.exponents_of(4 * i, inner);
    const float2 bias = pairs.bias_of(4 * i, inner);
    const Scale left = scale_of(e.x), right = scale_of(e.y);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float* pair = sums + 4 * i + 2 * j;
      const float2 y = {scaled(pair[0], of_row[j], left, bias.x), scaled(pair[1], of_row[j], right, bias.y)};
      if (row + 8 * j < rows && column + 8 * i < columns)
        *reinterpret_cast<float2*>(out + 8 * j * columns + 8 * i) = y;
    }
  }
}

/// Takes the sums of one chain while the products of the next run, and writes an item after its last chain.
/// The tensor cores so have work at all times, across items too.
template <int kBlocks>
__device__ __forceinline__ void consume(const SplitGemm& gemm, const Work& work, Ring ring) {
  const Cluster<kBlocks> cluster;
  const int group =
      __shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) - 1;  // as the compiler then knows it to be uniform
  const int thread = threadIdx.x % kGroupThreads, lane = threadIdx.x % 32;
  float first[64], second[64];
  Result result;
  result.clear();
  Ring used = ring;  // the oldest slot whose products may still be running
  auto start = [&](float(&sums)[64]) {
    wait(ring.full(ring.slot), ring.phase);
    start_chain(sums, ring.x() + group * kGroupRows * kRowBytes, ring.weight());
    ring.advance();
  };
  auto take = [&](float(&sums)[64]) {
    pin(sums);
    if (lane < kBlocks) arrive_at(ring.free(used.slot), lane);
    used.advance();
    result.add(sums);
  };
  int item = cluster.index;
  auto write = [&] {
    const GemmTile tile = gemm_tile(item, work.row_groups, work.column_groups);
    result.write(gemm, cluster.first_row(tile) + group * kGroupRows + fragment_row(thread, 0),
                 tile.column * kTile + fragment_column(thread, 0));
    result.clear();
    item += cluster.count;
  };
  const int64_t items = (work.items - 1 - cluster.index) / cluster.count + 1;
  int left = work.chains;
  start(first);
#pragma unroll 1
  for (int64_t pairs = items * work.chains / 2; pairs > 1; --pairs) {
    start(second);
    wgmma_wait<1>();
    take(first);
    start(first);
    wgmma_wait<1>();
    take(second);
    if ((left -= 2) == 0) {
      left = work.chains;
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
