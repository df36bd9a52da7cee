#pragma once
#include "attention/attention_types.h"
#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// attention() on checked CUDA tensors of type fp32, bf16 or fp16, with options.scale set and no offsets, by
/// one of LibTorch's fused kernels (cuDNN, FlashAttention-2, memory-efficient). A state comes as (lse, 1,
/// out). Throws what LibTorch throws where the kernel does not take the call, or memory runs out.
AttentionResult attention_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionOptions& options, CudaKernel kernel);

}  // namespace vggt
