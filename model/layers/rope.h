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

/// Normalises q or k per head (LayerNorm over D) and rotates it, in place.
/// x [T,A,D], contiguous but for its tokens, which may lie apart as in [T,3,A,D]; token t stands at place
/// t mod P of its frame. weight and bias [D] in the state type. Computes in fp32 (fp64 for fp64) and rounds
/// once. D a multiple of 4.
void norm_rope_(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                const Rope& rope);

/// Row r of out [M,A,D] = the mean of what norm_rope_() makes of rows members[offsets[r]], ...,
/// members[offsets[r + 1] - 1] of x [T,A,D], contiguous, which may be overwritten. out: of the type of x, its
/// rows anywhere, also on another device; members [N'] and offsets [M+1] int64, contiguous, beside x. A GPU's
/// kernel rounds the mean alone; elsewhere what is averaged has been rounded too. The same on every run.
void norm_rope_mean_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, double eps, const Rope& rope, const at::Tensor& members,
                         const at::Tensor& offsets);

}  // namespace vggt
