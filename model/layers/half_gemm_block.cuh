#pragma once
// A block of products of bf16 or fp16 numbers on Hopper, summed in fp32: one thread keeps a ring of slots
// filled, two warpgroups multiply.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/cuda/hopper/tensor_map.h"
#include "attention/cuda/hopper/wgmma.cuh"
#include "model/layers/gemm_ring.cuh"

namespace vggt::half_gemm {

using namespace gemm;

inline constexpr int kChain = 64;                                    // columns of x in a slot
inline constexpr int kColumns = 256;                                 // of a tile
inline constexpr int kSums = kGroupRows * kColumns / kGroupThreads;  // of a thread
// A cluster's two blocks share what they load of the weight: 32 bytes from L2 each clock instead of 48.
// Tiles of 128×192 and 128×128 leave registers for a second set of sums, so that what follows a tile runs
// beside the next one's products. For GELU or a residual that was no faster on an H200, which its power
// limits.
inline constexpr int kBlocks = 2;
using HalfRing = Ring<kTileRows * kRowBytes, (kTileRows + kColumns) * kRowBytes, 4>;

/// Rows of 16-bit numbers, contiguous; columns are a multiple of 8, data is aligned to 16 bytes.
struct HalfRows {
  const void* data = nullptr;
  int rows = 0, columns = 0;
};

template <class T>
cudaError_t map_rows(CUtensorMap& map, const HalfRows& x) {
  constexpr auto kType =
      std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const int64_t all = int64_t{x.rows} * x.columns;
  return make_tensor_map(map, kType, x.data, {all, all, x.columns}, {1, 1, x.rows, x.columns, kTileRows});
}

constexpr int chains_of(int columns) {
  return divide_up(columns, kChain);
}

/// Each block loads its own rows of x, and its half of the weight's rows to both.
__device__ __forceinline__ void produce(const GemmMaps& maps, Walk<kBlocks> walk, int chains, HalfRing ring) {
  static_assert(kColumns / kBlocks == kTileRows);  // one box
  const int share = walk.rank * kTileRows;
  for (; !walk.done(); walk.advance()) {
    const int row = walk.row_tile * kTileRows, of_weight = walk.column_tile * kColumns + share;
#pragma unroll 1
    for (int chain = 0; chain < chains; ++chain) {
      wait(ring.free(ring.slot), ring.phase ^ 1);
      const uint32_t full = ring.full(ring.slot);
      arrive_expecting(full, HalfRing::kSlotBytes);
      load_box(ring.x(), &maps.x, full, chain * kChain, row, 0, 0);
      load_box_to((1 << kBlocks) - 1, ring.weight() + share * kRowBytes, &maps.weight, full, chain * kChain,
                  of_weight);
      ring.advance();
    }
  }
}

template <class T>
__device__ __forceinline__ void start_chain(float (&sums)[kSums], uint32_t x, uint32_t weight,
                                            int accumulate) {
  const uint64_t a = matrix_descriptor(x, 0, kSwizzleBytes), b = matrix_descriptor(weight, 0, kSwizzleBytes);
  pin(sums);
  wgmma_fence();
#pragma unroll
  for (int column = 0; column < kChain; column += 16)
    multiply<T>(sums, a + column * 2 / 16, b + column * 2 / 16, column == 0 ? accumulate : 1);
  wgmma_commit();
}

/// Hands each tile's sums to output(sums, walk, group). While one warpgroup is there, the other multiplies.
template <class T, class Output>
__device__ __forceinline__ void consume(Walk<kBlocks> walk, int chains, HalfRing ring, Output& output) {
  const int group = consumer_group(), lane = threadIdx.x % 32;
  float sums[kSums];
  int used = 0;  // the slot whose products may still be running
  auto start = [&](int accumulate) {
    wait(ring.full(ring.slot), ring.phase);
    start_chain<T>(sums, ring.x() + group * kGroupRows * kRowBytes, ring.weight(), accumulate);
  };
  auto release = [&] {
    if (lane < kBlocks) arrive_at(ring.free(used), lane);
  };
  for (; !walk.done(); walk.advance()) {
    start(0);
    used = ring.slot;
    ring.advance();
#pragma unroll 1
    for (int chain = 1; chain < chains; ++chain) {
      start(1);
      wgmma_wait<1>();
      release();
      used = ring.slot;
      ring.advance();
    }
    wgmma_wait<0>();
    pin(sums);
    release();
    output(sums, walk, group);
  }
}

}  // namespace vggt::half_gemm
