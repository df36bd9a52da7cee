#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether match_fused() takes these: fp32, bf16 or fp16 on a Hopper GPU, in a build with code for it, of
/// columns that are a multiple of 8. x [s,C] and y [d,C] contiguous, of one type and device.
bool can_match_fused(const at::Tensor& x, const at::Tensor& y);

/// For each row of x the largest dot product with a row of y, score [s] fp32, and that row, best [s] int64;
/// the first one of equals. Never a product that is NaN: score -inf and row 0 where all are. Sums in fp32, in
/// fp32's accuracy also for fp32, of finite numbers (Note [Splitting rows]). The same on every run. Takes no
/// memory for bf16 and fp16, at most kSplitPieceBytes for fp32.
void match_fused(const at::Tensor& x, const at::Tensor& y, at::Tensor& score, at::Tensor& best);

}  // namespace vggt
