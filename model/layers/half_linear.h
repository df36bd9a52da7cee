#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether the functions below take x [M,in] and weight [out,in] and are faster than LibTorch's product with
/// a pass over its result: bf16 or fp16 on a Hopper GPU, in a build with code for it, of enough rows to fill
/// the GPU. Tensors are contiguous, of one type and device.
bool half_linear_pays(const at::Tensor& x, const at::Tensor& weight);

/// y [M,out] = GELU(x·weightᵀ + bias), exact GELU of the sums in fp32: bias [out], all of one type.
void linear_gelu_half(at::Tensor& y, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// rows [M,out] += gamma·(x·weightᵀ + bias), in fp32 from the sums on: rows and gamma [out] are fp32.
void linear_residual_half(at::Tensor& rows, const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, const at::Tensor& gamma);

}  // namespace vggt
