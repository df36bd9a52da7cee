#pragma once
#include <ATen/ATen.h>

#include <optional>

#include "model/layers/joined_rows.h"

namespace vggt {

/// Matrices [M,...] of one type on a Hopper GPU as rows for kernels; nothing where they are too many, not
/// contiguous or aligned, or their columns are no multiple of this. Matrices without columns are left out.
std::optional<JoinedRows> joined_rows(at::TensorList parts, int64_t multiple);

/// x·weightᵀ + bias into y [M,out], contiguous: x, weight [out,in] and bias [out] of bf16 or fp16.
void joined_linear_out(at::Tensor& y, const JoinedRows& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace vggt
