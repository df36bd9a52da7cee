#pragma once
#include <ATen/ATen.h>

#include <optional>

#include "attention/attention_types.h"

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

/// Whether norm_rope_() writes parts with this norm of D numbers and these angles: they are aligned, and D is
/// 64 or 128.
bool writes_parts(const at::Tensor& weight, const at::Tensor& bias, const Rope& rope);

/// Where norm_rope_() puts parts.
struct PartsPlace {
  const QkParts& parts;
  int64_t which = 0;  // 0, 1: x is q, k
  int64_t first = 0;  // the token of B·N that x begins with
};

/// Normalises q or k per head (LayerNorm over D) and rotates it, in place.
/// x [T,A,D], contiguous but for its tokens, which may lie apart as in [T,3,A,D]; token t stands at place
/// t mod P of its frame. weight and bias [D] in the state type. Computes in fp32 (fp64 for fp64) and rounds
/// once. D a multiple of 4. place: where x goes in parts besides, where writes_parts() and x is fp32 on a
/// GPU, with heads that are aligned to 16 bytes. The parts' exponent is that of a bound by the norm's
/// weights, so that they need no pass for the largest number.
void norm_rope_(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                const Rope& rope, const std::optional<PartsPlace>& place = std::nullopt);

/// Row r of out [M,A,D] = the mean of what norm_rope_() makes of rows members[offsets[r]], ...,
/// members[offsets[r + 1] - 1] of x [T,A,D], contiguous, which may be overwritten. out: of the type of x, its
/// rows anywhere, also on another device; members [N'] and offsets [M+1] int64, contiguous, beside x. A GPU's
/// kernel rounds the mean alone; elsewhere what is averaged has been rounded too. The same on every run.
void norm_rope_mean_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, double eps, const Rope& rope, const at::Tensor& members,
                         const at::Tensor& offsets);

}  // namespace vggt
