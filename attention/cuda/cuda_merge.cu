// The second pass: the states of the partitions of the keys become one, by a tree (an up-sweep).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>

#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/cuda_launch.h"

namespace vggt {
namespace {

constexpr int kThreads = 256, kQuad = 4;
using Quad = SoftmaxState<float, kQuad>;  // m in base 2, and 4 dims of W

/// The state over partitions first .. first + 2^Depth - 1; partitions past the last are empty.
template <int Depth>
__device__ inline Quad merged(const CudaProblem& p, int64_t line, int dim, int first) {
  if constexpr (Depth == 0) {
    Quad one;
    if (first >= p.partitions) return one;
    const PartitionState state = partition_state(p, first);
    const float4 w = *reinterpret_cast<const float4*>(state.w + line * p.dim + dim);
    one.m = state.m2[line];
    one.s = state.s[line];
    one.w[0] = w.x;
    one.w[1] = w.y;
    one.w[2] = w.z;
    one.w[3] = w.w;
    return one;
  } else {
    return merge(merged<Depth - 1>(p, line, dim, first),
                 merged<Depth - 1>(p, line, dim, first + (1 << (Depth - 1))), kLn2);
  }
}

template <class T>
struct alignas(kQuad * sizeof(T)) Four {
  T x[kQuad];
};

template <class T>
__device__ void store(void* base, int64_t at, const float (&w)[kQuad], float factor) {
  Four<T> four;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) four.x[i] = static_cast<T>(w[i] * factor);
  *reinterpret_cast<Four<T>*>(static_cast<T*>(base) + at) = four;
}

template <int Depth>
__global__ void __launch_bounds__(kThreads) merge_partitions_kernel(const __grid_constant__ CudaProblem p) {
  const int quads = p.dim / kQuad;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= state_rows(p) * quads) return;
  const int64_t line = index / quads;
  const int dim = static_cast<int>(index % quads) * kQuad;
  const Quad state = merged<Depth>(p, line, dim, 0);

  BlockWork work = {};
  work.first_query = static_cast<int>(line % p.queries);
  work.head = static_cast<int>(line / p.queries % p.heads);
  work.batch = static_cast<int>(line / p.queries / p.heads);
  CudaProblem whole = p;
  whole.partitions = 1;
  if (dim == 0) write_numbers(whole, work, 0, state.m, state.s);
  const float factor = wide_factor(whole, state.s);
  const int64_t at = work.batch * p.out_strides.batch + work.head * p.out_strides.head +
                     work.first_query * p.out_strides.token + dim;
  if (!p.out) {
    store<float>(p.w, at, state.w, factor);
  } else if (p.type == CudaElement::fp32) {
    store<float>(p.out, at, state.w, factor);
  } else if (p.type == CudaElement::bf16) {
    store<__nv_bfloat16>(p.out, at, state.w, factor);
  } else {
    store<__half>(p.out, at, state.w, factor);
  }
}

template <int Depth>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  if constexpr ((1 << Depth) < kMostPartitions) {
    if (p.partitions > 1 << Depth) return launch<Depth + 1>(p, stream);
  }
  const int64_t blocks = (state_rows(p) * (p.dim / kQuad) + kThreads - 1) / kThreads;
  if (blocks > INT_MAX || p.partitions > kMostPartitions) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  merge_partitions_kernel<Depth><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t merge_partitions(const CudaProblem& p, cudaStream_t stream) {
  return launch<1>(p, stream);
}

}  // namespace vggt
