#pragma once
// Tiles of the half kernels, and how they are called.

#include "attention/cuda_problem.h"

namespace vggt {

/// For any GPU from sm_80 on.
constexpr CudaTile kHalfTile80{64, 64};
/// For Hopper: three consumers of 64 queries, or two where rows of 128 leave no registers for a third.
constexpr CudaTile kHalfTile90{192, 128}, kHalfTile90Wide{128, 128};

/// Whether this build has code for sm_90a, without which launch_half_sm90() must not be called.
bool half_sm90_built();

cudaError_t launch_half_sm80(const CudaProblem& p, cudaStream_t stream);
cudaError_t launch_half_sm90(const CudaProblem& p, cudaStream_t stream);

}  // namespace vggt
