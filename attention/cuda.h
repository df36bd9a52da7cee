#pragma once
#include "attention/attention.h"
#include "attention/cuda_plan.h"

namespace vggt {

/// What the plans depend on, of a CUDA device. Throws c10::Error where it cannot be asked.
CudaDevice cuda_device(const at::Device& device);

/// The plan for checked CUDA tensors of type fp32, bf16 or fp16. Throws c10::Error where options.variant
/// cannot compute them, with the reason.
CudaPlan plan_cuda(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// attention() by our own kernels, on checked CUDA tensors with options.scale set. plan: as from plan_cuda()
/// but for its partitions, which may be any number from 1 to kMostPartitions; its variant is not sdpa.
AttentionResult attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionOptions& options, const CudaPlan& plan);

}  // namespace vggt
