#pragma once
// LibTorch's fused kernels beside ours: which of them can take the place of ours, and which does without
// being measured. Pure functions, without torch.

#include <string>
#include <vector>

#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// The fastest of LibTorch's kernels by rule that takes these sizes: what variant sdpa stands for.
CudaKernel choose_fused_kernel(CudaElement type, const CudaSizes& sizes, const CudaDevice& device);

/// Whether a kernel of LibTorch's is as exact as the variants for this type, of so many keys. variant: of our
/// kernel that it would replace; sdpa where there is none.
bool is_as_exact(CudaKernel fused, AttentionVariant variant, CudaElement type, int64_t keys);

/// LibTorch's kernels that take these sizes on this device as exactly as `variant`; the fastest by rule
/// first.
std::vector<CudaKernel> fused_kernels(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                                      const CudaDevice& device);

/// `own`, the plan of our kernels, or one of LibTorch's kernels that measured chips lead to expect to be
/// faster: what computes a call that either may compute, where nothing is measured.
CudaPlan plan_by_rule(const CudaPlan& own, CudaElement type, const CudaSizes& sizes,
                      const CudaDevice& device);

/// The plans to compare for such a call: plan_by_rule() first, then `own` and LibTorch's kernels.
std::vector<CudaPlan> plans_with_libtorch(const CudaPlan& own, CudaElement type, const CudaSizes& sizes,
                                          const CudaDevice& device);

/// Such as "flash (LibTorch)".
std::string fused_name(CudaKernel fused);
/// Such as "half: own, 128x64" or "half: cuDNN (LibTorch)". variant: that the call was to be computed by.
std::string plan_name(AttentionVariant variant, const CudaPlan& plan);

}  // namespace vggt
