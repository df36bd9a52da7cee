#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether convolve_winograd() computes a convolution of x [F,in,H,W] by weight [out,in,k,k], and mostly
/// faster than LibTorch does: fp32 on a CPU with AVX-512, 3×3, of maps and channels that are not small. The
/// number of maps does not enter, so that a map's result is the same bit for bit beside any others.
bool winograd_pays(const at::Tensor& x, const at::Tensor& weight, int64_t stride, int64_t padding);

/// at::conv2d of stride 1 and padding 1 where winograd_pays(): x [F,in,H,W], weight [out,in,3,3], bias [out]
/// or undefined -> [F,out,H,W], channels last. By Winograd's F(4×4,3×3): 36 products for 16 pixels where
/// windows have 144. Exact to fp32's rounding (Note [Winograd's points]); a number that is inf or NaN makes
/// NaN of pixels up to 3 rows and columns away.
at::Tensor convolve_winograd(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace vggt
