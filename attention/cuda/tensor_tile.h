#pragma once
// Tiles of the kernels on tensor cores, for the kernels and their plans.

#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// half and turbo, on any GPU from sm_80 on.
constexpr CudaTile kHalfTile80{64, 64};
/// half and turbo on Hopper: three warpgroups of 64 queries, or two with a head dim of 128, which leaves no
/// registers for a third.
constexpr CudaTile kHalfTile90{192, 128}, kHalfTile90Wide{128, 128};
/// split, on any GPU from sm_80 on: two tiles of keys and values in two parts take 64 KB.
constexpr CudaTile kSplitTile80{64, 64}, kSplitTile80Wide{64, 32};
/// split on Hopper: two warpgroups; tiles in two parts take twice the registers.
constexpr CudaTile kSplitTile90{128, 128}, kSplitTile90Wide{128, 64};

}  // namespace vggt
