#pragma once
// What the products on Hopper's tensor cores share: a producer thread fills a ring of slots in shared memory,
// consumer warpgroups empty it, and all walk over the same tiles.

#include "attention/cuda/hopper/hopper_cluster.cuh"
#include "model/layers/gemm_work.h"

namespace vggt::gemm {

using namespace hopper;

inline constexpr int kGroups = 2;  // consumer warpgroups, of 64 rows of the tile each
inline constexpr int kGroupThreads = 128, kGroupRows = 64;
inline constexpr int kThreads = (1 + kGroups) * kGroupThreads;
inline constexpr int kTileRows = kGroups * kGroupRows;

struct GemmMaps {
  CUtensorMap x, weight;
};

/// Addresses in shared memory. A slot holds kXBytes of x, then the weight's.
template <int kXBytes_, int kSlotBytes_, int kSlots_>
struct Ring {
  static constexpr int kSlotBytes = kSlotBytes_, kSlots = kSlots_;
  static constexpr int kSharedBytes = kSwizzleBytes + kSlots * (kSlotBytes + 16);
  uint32_t base;
  int slot = 0;
  uint32_t phase = 0;

  __device__ explicit Ring(const char* memory)
      : base((shared_address(memory) + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes) {}
  __device__ uint32_t x() const { return base + slot * kSlotBytes; }
  __device__ uint32_t weight() const { return x() + kXBytes_; }
  __device__ uint32_t full(int i) const { return base + kSlots * kSlotBytes + 16 * i; }
  __device__ uint32_t free(int i) const { return full(i) + 8; }
  __device__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

template <int kBlocks, class Ring>
__device__ __forceinline__ void init_barriers(const Ring& ring) {
  for (int i = 0; i < Ring::kSlots; ++i) {
    init_barrier(ring.full(i), 1);
    init_barrier(ring.free(i), kBlocks * kGroups * kGroupThreads / 32);
  }
  fence_barrier_init();
}

/// The tiles of one block, in order. The blocks of a cluster walk in step: same columns, neighbouring rows.
template <int kBlocks>
struct Walk {
  GemmWork work;
  int item = blockIdx.x / kBlocks, rank = blockIdx.x % kBlocks, clusters = gridDim.x / kBlocks;
  int row_tile = 0, column_tile = 0, end = 0;

  __device__ explicit Walk(const GemmWork& of) : work(of) { open(); }
  __device__ bool done() const { return item >= work.items(); }
  __device__ bool item_ends() const { return column_tile + 1 == end; }
  __device__ void advance() {
    if (++column_tile < end) return;
    item += clusters;
    open();
  }
  /// All tiles from the first one on.
  __device__ int64_t tiles() const {
    int64_t all = 0;
    for (int i = item; i < work.items(); i += clusters) {
      const int first = gemm_tile(i, work.row_groups, work.column_groups).column * work.of_group;
      all += min(work.of_group, work.column_tiles - first);
    }
    return all;
  }

 private:
  __device__ void open() {
    if (done()) return;
    const GemmTile tile = gemm_tile(item, work.row_groups, work.column_groups);
    row_tile = tile.row * kBlocks + rank;
    column_tile = tile.column * work.of_group;
    end = min(column_tile + work.of_group, work.column_tiles);
  }
};

/// What a kernel of such a block does: `produce` runs in one thread, `consume` in the consumers.
template <int kBlocks, class Ring, class Produce, class Consume>
__device__ __forceinline__ void run_block(const Ring& ring, const Produce& produce, const Consume& consume) {
  if (threadIdx.x == 0) init_barriers<kBlocks>(ring);
  __syncthreads();
  if constexpr (kBlocks > 1) sync_cluster();  // no block may signal a barrier before its block has made it
  if (__shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) == 0) {
    shrink_registers<24>();
    if (threadIdx.x == 0) produce();
  } else {
    grow_registers<240>();
    consume();
  }
  if constexpr (kBlocks > 1) sync_cluster();  // nor write to the shared memory of a block that has ended
}

/// The consumer warpgroup that this thread belongs to.
__device__ __forceinline__ int consumer_group() {
  return __shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) - 1;  // as the compiler then knows it to be uniform
}

}  // namespace vggt::gemm
