#include "attention/cuda/cuda_launch.h"

#include <ATen/ATen.h>

#include "attention/cuda/cuda.h"
#include "attention/cuda/split_parts.h"

namespace vggt {
namespace {

/// A call on its parts, `count` of each number. The heads that split and turbo refuse strict computes: both
/// kernels are started, and each leaves out the other's heads.
template <class Launch>
cudaError_t launch_in_parts(const CudaProblem& p, int count, Launch launch, cudaStream_t stream) {
  const at::Tensor memory = at::empty({split_bytes(p, count)}, at::device(at::kCUDA).dtype(at::kByte));
  const SplitParts parts = split_parts(p, count, memory.mutable_data_ptr());
  cudaError_t error = prepare_split(p, parts, stream);
  if (error == cudaSuccess) error = launch(of_parts(p, parts), stream);
  if (error != cudaSuccess) return error;
  const CudaSizes sizes{static_cast<int64_t>(p.sequences) * p.heads, p.longest_queries, p.longest_keys,
                        p.dim};
  const CudaPlan strict =
      choose_cuda_plan(AttentionVariant::strict, p.type, sizes, cuda_device(memory.device()));
  return launch_strict(of_refused(p, parts), strict.tile, stream);
}

cudaError_t launch_kernel(const CudaProblem& p, const CudaPlan& plan, cudaStream_t stream) {
  auto with_tile = [&](auto launch) {
    return [&plan, launch](const CudaProblem& of_parts, cudaStream_t on) {
      return launch(of_parts, plan.tile, on);
    };
  };
  switch (plan.kernel) {
    case CudaKernel::sdpa_efficient:
    case CudaKernel::sdpa_flash:
    case CudaKernel::sdpa_cudnn:
      return cudaErrorNotSupported;
    case CudaKernel::strict:
      return launch_strict(p, plan.tile, stream);
    case CudaKernel::half_sm80:
      return launch_half_sm80(p, plan.tile, stream);
    case CudaKernel::half_sm90:
      return launch_half_sm90(p, stream);
    case CudaKernel::split_sm80:
      return launch_in_parts(p, 2, with_tile(launch_split_sm80), stream);
    case CudaKernel::split_sm90:
      return launch_in_parts(p, 2, launch_split_sm90, stream);
    case CudaKernel::turbo_sm80:
      return launch_in_parts(p, 1, with_tile(launch_turbo_sm80), stream);
    case CudaKernel::turbo_sm90:
      return launch_in_parts(p, 1, launch_turbo_sm90, stream);
  }
  return cudaErrorNotSupported;
}

}  // namespace

cudaError_t launch_attention(const CudaProblem& p, const CudaPlan& plan, cudaStream_t stream) {
  const cudaError_t error = launch_kernel(p, plan, stream);
  return error == cudaSuccess && p.partitions > 1 ? merge_partitions(p, stream) : error;
}

}  // namespace vggt
