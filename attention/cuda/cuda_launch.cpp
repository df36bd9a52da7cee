#include "attention/cuda/cuda_launch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "attention/cuda/cuda.h"
#include "attention/cuda/split_parts.h"

namespace vggt {
namespace {

/// A call on its parts, `count` of each number. The heads that split and turbo refuse strict computes: both
/// kernels are started, and each leaves out the other's heads.
template <class Launch>
cudaError_t launch_in_parts(const CudaProblem& p, int count, Launch launch, cudaStream_t stream) {
  CudaProblem call = p;
  if (count != 2) call.ready = {};
  const at::Tensor memory = at::empty({split_bytes(call, count)}, at::device(at::kCUDA).dtype(at::kByte));
  const SplitParts parts = split_parts(call, count, memory.mutable_data_ptr());
  cudaError_t error = prepare_split(call, parts, stream);
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

cudaError_t launch_whole(const CudaProblem& p, const CudaPlan& plan, cudaStream_t stream) {
  const cudaError_t error = launch_kernel(p, plan, stream);
  return error == cudaSuccess && p.partitions > 1 ? merge_partitions(p, stream) : error;
}

/// fp16 parts of each number that the variant makes; 0: it takes the numbers as they are.
int parts_of(AttentionVariant variant) {
  return variant == AttentionVariant::split ? 2 : variant == AttentionVariant::turbo ? 1 : 0;
}

/// Some sequences and heads of a call in fp32: all heads, or a single sequence.
CudaProblem group_of(const CudaProblem& p, int sequence, int sequences, int head, int heads) {
  CudaProblem g = p;
  auto offset = [&](const AttentionStrides& strides) {
    return sequence * strides.batch + head * strides.head;
  };
  const int64_t row = (int64_t{p.heads} * sequence + head) * p.queries;
  g.q = static_cast<const float*>(p.q) + offset(p.q_strides);
  g.k = static_cast<const float*>(p.k) + offset(p.k_strides);
  g.v = static_cast<const float*>(p.v) + offset(p.v_strides);
  if (p.out) g.out = static_cast<float*>(p.out) + offset(p.out_strides);
  if (p.w) g.w += offset(p.out_strides);
  for (float** numbers : {&g.lse, &g.m, &g.s}) {
    if (*numbers) *numbers += row;
  }
  if (p.q_offsets == nullptr) g.sequences = sequences;
  g.batch = sequences;
  g.heads = heads;
  if (sequences < p.batch || heads < p.heads) g.ready = {};
  return g;
}

}  // namespace

cudaError_t launch_attention(const CudaProblem& p, const CudaPlan& plan, cudaStream_t stream) {
  const int parts = parts_of(variant_of(plan.kernel));
  if (parts == 0) return launch_whole(p, plan, stream);
  const int64_t numbers = (int64_t{p.queries} + 2 * int64_t{p.keys}) * p.dim;  // of a head
  const PartGroup group = part_group(p.batch, p.heads, 2 * parts * numbers);
  const int sequences = static_cast<int>(group.sequences), heads = static_cast<int>(group.heads);
  for (int sequence = 0; sequence < p.batch; sequence += sequences) {
    for (int head = 0; head < p.heads; head += heads) {
      const cudaError_t error = launch_whole(group_of(p, sequence, std::min(sequences, p.batch - sequence),
                                                      head, std::min(heads, p.heads - head)),
                                             plan, stream);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace vggt
