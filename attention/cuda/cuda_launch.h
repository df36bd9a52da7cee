#pragma once
// How an attention call is started on the current device, and for which devices this build has code. Without
// torch.

#include <cuda_runtime_api.h>

#include "attention/cuda/cuda_plan.h"
#include "attention/cuda/cuda_problem.h"

namespace vggt {

/// Starts the plan's kernel, and the merging of partitions: what p wants is then written. p has the plan's
/// number of partitions. stream: LibTorch's current one, from whose memory split and turbo take theirs.
/// Returns cudaErrorNotSupported for a plan without a kernel (sdpa).
cudaError_t launch_attention(const CudaProblem& p, const CudaPlan& plan, cudaStream_t stream);

// The kernels. With p.partitions > 1 they write the states of the partitions to the workspace.

/// fp32, IEEE arithmetic without tensor cores. tile: one of with_strict_tile()'s.
cudaError_t launch_strict(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream);

/// bf16 and fp16 on tensor cores: from sm_80 on, with a tile of tensor_tile.h; and on Hopper where
/// sm90a_built().
cudaError_t launch_half_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream);
cudaError_t launch_half_sm90(const CudaProblem& p, cudaStream_t stream);

/// fp32 in parts, see split_parts.h: split of two parts, at fp32's accuracy, turbo of one, at TF32's. From
/// sm_80 on, and on Hopper where sm90a_built().
cudaError_t launch_split_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream);
cudaError_t launch_split_sm90(const CudaProblem& p, cudaStream_t stream);
cudaError_t launch_turbo_sm80(const CudaProblem& p, const CudaTile& tile, cudaStream_t stream);
cudaError_t launch_turbo_sm90(const CudaProblem& p, cudaStream_t stream);

/// The second pass: merges the states of the partitions by a tree. Any type of out.
cudaError_t merge_partitions(const CudaProblem& p, cudaStream_t stream);

/// Whether this build has code of strict for the current device.
bool strict_built();
/// Whether this build's code for the current device was compiled for sm_80 or later, with its instructions.
bool sm80_built();
/// Whether this build has code for sm_90a, which alone has Hopper's matrix instructions.
bool sm90a_built();

}  // namespace vggt
