#pragma once
#include "attention/attention_types.h"
#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// What the plans depend on, of a CUDA device with an index. Asked once per device, for any number of
/// threads. Throws c10::Error where it cannot be asked.
CudaDevice cuda_device(const at::Device& device);

/// The device; the first GPU where it has no index.
inline at::Device numbered(const at::Device& device) {
  return {device.type(), device.has_index() ? device.index() : at::DeviceIndex{0}};
}

/// The kernels' name for fp32, bf16 or fp16.
CudaElement cuda_element(at::ScalarType type);

/// The sizes of a call, of the longest sequence where sequences are packed.
CudaSizes cuda_sizes(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// The plan for checked CUDA tensors of type fp32, bf16 or fp16. Throws c10::Error where options.variant
/// cannot compute them, with the reason.
CudaPlan plan_cuda(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// attention() by the plan's kernel, on checked CUDA tensors with options.scale set. plan: from plan_cuda()
/// or alternative_plans(), with any number of partitions from 1 to kMostPartitions; not sdpa. Throws
/// c10::Error where the kernel cannot be started.
AttentionResult attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionOptions& options, const CudaPlan& plan);

}  // namespace vggt
