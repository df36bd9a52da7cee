#pragma once
#include "attention/attention.h"
#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// What the plans depend on, of a CUDA device. Throws c10::Error where it cannot be asked.
CudaDevice cuda_device(const at::Device& device);

/// The device; the first GPU where it has no index.
inline at::Device numbered(const at::Device& device) {
  return {device.type(), device.has_index() ? device.index() : at::DeviceIndex{0}};
}

CudaElement cuda_element(at::ScalarType type);

/// Of the longest sequence.
CudaSizes cuda_sizes(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// The plan for checked CUDA tensors of type fp32, bf16 or fp16. Throws c10::Error where options.variant
/// cannot compute them, with the reason.
CudaPlan plan_cuda(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// `plan`, from plan_cuda(), or the one that options.tuner has measured as faster. It measures now where it
/// has not yet, but for packed sequences and while the stream is being captured.
CudaPlan tuned_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionOptions& options, const CudaPlan& plan);

/// attention() by our own kernels, on checked CUDA tensors with options.scale set. plan: as from plan_cuda()
/// but for its partitions, which may be any number from 1 to kMostPartitions; its variant is not sdpa.
AttentionResult attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionOptions& options, const CudaPlan& plan);

}  // namespace vggt
