#pragma once
// What a kernel needs to know, without torch: pointers, strides, sizes, and the policy chosen from the sizes.

#include <algorithm>
#include <cstdint>

namespace vggt {

/// Steps of a [B,A,N,D] tensor in elements; the last dimension is contiguous.
struct AttentionStrides {
  int64_t batch = 0, head = 0, token = 0;
};

/// One attention call in fp32. With offsets (packed sequences of different lengths): batch = 1, queries and
/// keys are totals, and sequence j covers the tokens offsets[j] .. offsets[j+1].
struct AttentionParams {
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // [B,A,Nq,D], [B,A,Nk,D], [B,A,Nk,D]
  AttentionStrides q_strides, k_strides, v_strides;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, dim = 0;
  float scale = 1;

  const int64_t *q_offsets = nullptr, *k_offsets = nullptr;  // [sequences + 1], or null
  int64_t sequences = 0;                                     // batch where there are no offsets
  int64_t longest = 0;                                       // queries of the longest sequence

  // What is written; null: not wanted. Rows of lse, m and s are [B,A,Nq] contiguous.
  float *out = nullptr, *w = nullptr;  // [B,A,Nq,D] with out_strides
  AttentionStrides out_strides;
  float *lse = nullptr, *m = nullptr, *s = nullptr;
};

enum class CpuIsa { baseline, avx2, avx512 };

/// How a CPU call is cut up. It changes speed only.
struct CpuPolicy {
  CpuIsa isa = CpuIsa::baseline;
  int threads = 1;
  int64_t block = 1;   // queries per task: they share the packed key tiles
  int64_t blocks = 1;  // tasks per (sequence, head)
  int64_t grain = 1;   // tasks a thread takes at a time
};

/// The policy for these sizes on a machine with this instruction set and number of threads: pure.
CpuPolicy choose_cpu_policy(const AttentionParams& p, CpuIsa isa, int threads);

/// LibTorch's fused kernels on CUDA.
enum class FusedKernel { cudnn, flash, efficient };

/// The fastest of them that takes these sizes. half: fp16 or bf16. capability: major·10 + minor. Pure.
FusedKernel choose_fused_kernel(bool half, int64_t dim, int64_t queries, int64_t keys, int capability);

}  // namespace vggt
