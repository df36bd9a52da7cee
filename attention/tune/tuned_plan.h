#pragma once
#include "attention/attention_types.h"
#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// `plan`, from plan_cuda(), or the plan that options.tuner has measured as faster. A class of sizes that the
/// tuner does not know is measured now, unless its calls are too long for that (see fastest_plan()), the
/// sequences are packed, or the stream is being captured. Threads that meet a class at the same time each
/// measure it, and the last one's plan is kept.
CudaPlan tuned_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionOptions& options, const CudaPlan& plan);

/// `own`, from tuned_plan(), or a kernel of LibTorch's that is as exact, where one may compute the call (see
/// AttentionOptions::or_libtorch) and options.tuner has measured it as faster; where nothing is measured,
/// plan_by_rule(). A new class of sizes is measured now within another TuneBudget, of a long call a part (see
/// compared_part()). Never a kernel that fused_offered() rejects.
CudaPlan faster_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const CudaPlan& own);

}  // namespace vggt
