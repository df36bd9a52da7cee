#pragma once
// Tiles of the kernels on tensor cores, for the kernels and their plans.

#include "attention/cuda/cuda_plan.h"

namespace vggt {

// On any GPU from sm_80 on: tiles in order of speed where two blocks share a multiprocessor. The later ones
// take less shared memory, and have more blocks for few queries. kParts: 2 for split, else 1.

/// half and turbo.
constexpr CudaTile kHalfTiles80[] = {{128, 64}, {64, 64}};
constexpr CudaTile kHalfTiles80Wide[] = {{128, 32}, {64, 32}};
/// split.
constexpr CudaTile kSplitTiles80[] = {{128, 32}, {64, 32}};
constexpr CudaTile kSplitTiles80Wide[] = {{64, 32}};

/// Threads of a block, and its bytes of shared memory: its queries, two tiles of keys and two of values.
constexpr int kThreads80 = 128;
constexpr int shared_bytes80(const CudaTile& tile, int dim, int parts) {
  return parts * (tile.queries + 4 * tile.keys) * dim * 2;
}
/// Blocks that share a multiprocessor's registers.
constexpr int blocks80(const CudaTile& tile, int parts) {
  return parts == 1 && tile.queries == 64 ? 3 : 2;
}

/// half and turbo on Hopper: three warpgroups of 64 queries, or two with a head dim of 128, which leaves no
/// registers for a third.
constexpr CudaTile kHalfTile90{192, 128}, kHalfTile90Wide{128, 128};
/// split on Hopper: two warpgroups; tiles in two parts take twice the registers.
constexpr CudaTile kSplitTile90{128, 128}, kSplitTile90Wide{128, 64};

}  // namespace vggt
