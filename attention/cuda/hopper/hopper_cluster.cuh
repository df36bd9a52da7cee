#pragma once
// Clusters of blocks on neighbouring multiprocessors, which read each other's shared memory (sm_90a).

#include "attention/cuda/hopper/hopper.cuh"

namespace vggt::hopper {

/// Returns once all threads of all blocks of the cluster have called it. Threads of a warp may call it apart.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// Arrives at the barrier at this address in the shared memory of the cluster's block `rank`.
__device__ __forceinline__ void arrive_at(uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
/// load_box() into every block in the mask, at the same address; the bytes count at each block's own barrier.
__device__ __forceinline__ void load_box_to(uint16_t blocks, uint32_t to, const CUtensorMap* map,
                                            uint32_t barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(0), "h"(blocks)
      : "memory");
}

}  // namespace vggt::hopper
