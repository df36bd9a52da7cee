#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// 2-D rotary position embedding of a grid of patches: the first half of a head turns with the row, the
/// second with the column; special tokens stand at (0,0), patches from (1,1) on (reference:
/// vggt/layers/rope.py).
struct Rope {
  at::Tensor cosine, sine;   // [max(rows, columns) + 1, D/4], state type
  int64_t tokens_per_frame;  // P
  int64_t special_tokens;
  int64_t columns;

  Rope(int64_t rows, int64_t columns, int64_t special_tokens, int64_t head_dim, double base,
       const at::TensorOptions& options);
};

/// Normalises q and k per head (LayerNorm over D) and rotates them, in place in the joint projection.
/// qkv [T,3,A,D] contiguous, token t standing at place t mod P of its frame; weights and biases [D] in the
/// state type. Computes in fp32 (fp64 for fp64) and rounds once. D a multiple of 4.
void norm_rope_(at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& q_bias,
                const at::Tensor& k_weight, const at::Tensor& k_bias, double eps, const Rope& rope);

}  // namespace vggt
