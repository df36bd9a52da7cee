#pragma once
#include <ATen/ATen.h>

#include "model/layers/layer_norm.h"
#include "model/layers/linear.h"
#include "model/layers/operand_type.h"

namespace vggt {

// The row-wise passes of a block. On a GPU, of fp32 rows, each reads and writes a number once; elsewhere they
// are LibTorch's operations. Rows [R,C] are contiguous, R of any size.

/// What a block adds to its rows: gamma·values.
struct Addition {
  const at::Tensor& values;            // [R,C], or [M,C] with row_of; operand type
  const at::Tensor& gamma;             // [C], state type
  const at::Tensor* row_of = nullptr;  // [R] int64: rows of values
};

/// LayerNorm of rows [R,C], state type -> y [R,C], contiguous, state or operand type. Statistics are of the
/// state type.
void norm_rows(at::Tensor& y, const at::Tensor& rows, const LayerNorm& norm);
/// The same into all of y's rows.
void norm_rows(ProductRows& y, const at::Tensor& rows, const LayerNorm& norm);

/// The same, each row of unit length. With row_of [R] int64, contiguous, y's rows are of rows [N,C] those.
void unit_norm_rows(at::Tensor& y, const at::Tensor& rows, const LayerNorm& norm,
                    const at::Tensor* row_of = nullptr);

/// sum = rows + addition: sum [R,C], contiguous, state type; it may be rows.
void add_rows(at::Tensor& sum, const at::Tensor& rows, const Addition& addition);

/// The same; y = LayerNorm(sum), as norm_rows(). y may be the addition's values, without row_of.
void add_norm_rows(at::Tensor& y, at::Tensor& sum, const at::Tensor& rows, const Addition& addition,
                   const LayerNorm& norm);
void add_norm_rows(ProductRows& y, at::Tensor& sum, const at::Tensor& rows, const Addition& addition,
                   const LayerNorm& norm);

/// x = GELU(x), exact: x contiguous.
void gelu_rows_(at::Tensor& x);

/// For kernels. Throws for any other type.
OperandType operand_type(at::ScalarType type);

}  // namespace vggt
