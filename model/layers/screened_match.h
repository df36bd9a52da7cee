#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether this processor runs match_screened(): AVX-512 with products of 8 bits (VNNI).
bool can_screen_matches();

/// For each row of x [s,C] the largest dot product with a row of y [d > 0,C], score [s] fp32, and that row,
/// best [s] int64; the first one of equals. x, y: contiguous, fp32 on the CPU, C from 1 to 65536. Products of
/// rows rounded to 8 bits come first, four times as fast; a bound of what rounding changes leaves a few rows
/// of y, and their products are computed in fp32 (Note [Screening by 8 bits]). A row's result is the same
/// whatever rows come beside it. A row of which many rows of y are left, or whose numbers are too large or
/// too small for fp32, keeps its score and best; returns those, [k] int64. Needs can_screen_matches(). Holds
/// y in 8 bits.
at::Tensor match_screened(const at::Tensor& x, const at::Tensor& y, at::Tensor& score, at::Tensor& best);

}  // namespace vggt
