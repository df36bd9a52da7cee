#pragma once
// One attention call as the CPU kernels take it, and the strides that the CUDA kernels take too. Without
// torch.

#include <cstdint>

namespace vggt {

/// Steps of a [B,A,N,D] tensor in elements; the last dimension is contiguous.
struct AttentionStrides {
  int64_t batch = 0, head = 0, token = 0;
};

/// One attention call in fp32 or bf16. With offsets (packed sequences of different lengths): batch = 1,
/// queries and keys are totals, and sequence j covers the tokens offsets[j] .. offsets[j+1].
struct AttentionParams {
  const void *q = nullptr, *k = nullptr, *v = nullptr;  // [B,A,Nq,D], [B,A,Nk,D], [B,A,Nk,D]
  int64_t element_bytes = 4;                            // of q, k, v and out
  AttentionStrides q_strides, k_strides, v_strides;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, dim = 0;
  float scale = 1;

  const int64_t *q_offsets = nullptr, *k_offsets = nullptr;  // [sequences + 1], or null
  int64_t sequences = 0;                                     // batch where there are no offsets
  int64_t longest = 0;                                       // queries of the longest sequence

  // What is written; null: not wanted. Rows of lse, m and s are [B,A,Nq] contiguous.
  void* out = nullptr;  // [B,A,Nq,D] with out_strides
  float* w = nullptr;   // the same in fp32
  AttentionStrides out_strides;
  float *lse = nullptr, *m = nullptr, *s = nullptr;

  // Of calls on a CPU that take the keys part after part, whether these are the first and the last ones. Till
  // the last, m, s, w and rounded [B,A,Nq] are what the kernel keeps of its queries (CpuState).
  bool begins = true, ends = true;
  float* rounded = nullptr;  // null: all keys come at once
};

}  // namespace vggt
