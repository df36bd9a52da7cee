#include "model/layers/row_passes.h"

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "model/layers/alignment.h"
#include "model/layers/row_kernels.h"
#endif

namespace vggt {
namespace {

constexpr double kTiny = 1e-12;  // the least length: a token of zeros stays one

/// The rows of `values` are added in the state type's precision, once they are multiplied.
void add_by_libtorch(at::Tensor& sum, const at::Tensor& rows, const Addition& addition) {
  at::addcmul_out(sum, rows,
                  addition.row_of ? addition.values.index_select(0, *addition.row_of) : addition.values,
                  addition.gamma);
}

#ifdef VGGT_CUDA
/// Whether the kernels take x, y of the operand type and fp32 rows beside it.
bool kernels_take(const at::Tensor& rows, const at::Tensor& operand) {
  const int64_t C = rows.size(-1);
  const auto type = operand.scalar_type();
  return rows.is_cuda() && rows.scalar_type() == at::kFloat && rows.is_contiguous() && is_aligned(rows) &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) && operand.is_contiguous() &&
         is_aligned(operand) && C % 4 == 0 && C <= kMostRowColumns;
}

RowPass row_pass(const at::Tensor& rows) {
  RowPass pass;
  pass.x = rows.const_data_ptr<float>();
  pass.rows = rows.size(0);
  pass.columns = static_cast<int>(rows.size(1));
  return pass;
}

void set_addition(RowPass& pass, at::Tensor& sum, const Addition& addition) {
  pass.sum = sum.mutable_data_ptr<float>();
  pass.added = addition.values.const_data_ptr();
  pass.gamma = addition.gamma.const_data_ptr<float>();
  if (addition.row_of) pass.row_of = addition.row_of->const_data_ptr<int64_t>();
}

void set_norm(RowPass& pass, const LayerNorm& norm) {
  pass.weight = norm.weight.const_data_ptr<float>();
  pass.bias = norm.bias.const_data_ptr<float>();
  pass.eps = static_cast<float>(norm.eps);
}

void run(const RowPass& pass, RowNorm norm, const at::Tensor& operand) {
  const c10::cuda::CUDAGuard guard(operand.device());
  row_pass_cuda(operand_type(operand.scalar_type()), norm, pass, c10::cuda::getCurrentCUDAStream().stream());
}
#endif

void check_addition(const at::Tensor& sum, const at::Tensor& rows, const Addition& addition) {
  const int64_t added = addition.row_of ? addition.row_of->numel() : addition.values.size(0);
  TORCH_CHECK(added == rows.size(0) && addition.values.size(1) == rows.size(1) &&
                  sum.sizes() == rows.sizes() && sum.scalar_type() == rows.scalar_type() &&
                  sum.is_contiguous(),
              "rows: cannot add ", addition.values.sizes(), " to ", rows.sizes(), " in ", sum.sizes());
}

}  // namespace

OperandType operand_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return OperandType::fp32;
    case at::kBFloat16:
      return OperandType::bf16;
    case at::kHalf:
      return OperandType::fp16;
    default:
      TORCH_CHECK(false, "kernels: expected fp32, bf16 or fp16, got ", type);
  }
}

void norm_rows(at::Tensor& y, const at::Tensor& rows, const LayerNorm& norm) {
#ifdef VGGT_CUDA
  if (kernels_take(rows, y)) {
    RowPass pass = row_pass(rows);
    set_norm(pass, norm);
    pass.y = y.mutable_data_ptr();
    return run(pass, RowNorm::layer, y);
  }
#endif
  y.copy_(norm(rows));
}

void norm_rows(ProductRows& y, const at::Tensor& rows, const LayerNorm& norm) {
  if (!y.split()) return norm_rows(y.values, rows, norm);
#ifdef VGGT_CUDA
  if (kernels_take(rows, rows)) {
    RowPass pass = row_pass(rows);
    set_norm(pass, norm);
    pass.parts = matrix_of(y.parts);
    return run(pass, RowNorm::layer, rows);
  }
#endif
  at::Tensor values = at::empty_like(rows);
  norm_rows(values, rows, norm);
  split_rows_into(y.parts, values);
}

void unit_norm_rows(at::Tensor& y, const at::Tensor& rows, const LayerNorm& norm, const at::Tensor* row_of) {
  TORCH_CHECK(y.size(0) == (row_of ? row_of->numel() : rows.size(0)) && y.size(1) == rows.size(1),
              "rows: no room for norms of ", row_of ? row_of->sizes() : rows.sizes(), " in ", y.sizes());
#ifdef VGGT_CUDA
  if (kernels_take(rows, y)) {
    RowPass pass = row_pass(rows);
    pass.rows = y.size(0);
    if (row_of) pass.row_of = row_of->const_data_ptr<int64_t>();
    set_norm(pass, norm);
    pass.y = y.mutable_data_ptr();
    return run(pass, RowNorm::unit, y);
  }
#endif
  const at::Tensor normed = norm(row_of ? rows.index_select(0, *row_of) : rows);  // [R,C]
  const at::Tensor length = normed.norm(2, {1}, true).clamp_min_(kTiny);          // [R,1]
  at::div_out(y, normed, length);
}

void add_rows(at::Tensor& sum, const at::Tensor& rows, const Addition& addition) {
  check_addition(sum, rows, addition);
#ifdef VGGT_CUDA
  if (kernels_take(rows, addition.values) && is_aligned(sum)) {
    RowPass pass = row_pass(rows);
    set_addition(pass, sum, addition);
    return run(pass, RowNorm::none, addition.values);
  }
#endif
  add_by_libtorch(sum, rows, addition);
}

void add_norm_rows(at::Tensor& y, at::Tensor& sum, const at::Tensor& rows, const Addition& addition,
                   const LayerNorm& norm) {
  check_addition(sum, rows, addition);
#ifdef VGGT_CUDA
  if (kernels_take(rows, y) && kernels_take(rows, addition.values) && is_aligned(sum) &&
      y.scalar_type() == addition.values.scalar_type()) {
    RowPass pass = row_pass(rows);
    set_addition(pass, sum, addition);
    set_norm(pass, norm);
    pass.y = y.mutable_data_ptr();
    return run(pass, RowNorm::layer, y);
  }
#endif
  add_by_libtorch(sum, rows, addition);
  y.copy_(norm(sum));
}

void add_norm_rows(ProductRows& y, at::Tensor& sum, const at::Tensor& rows, const Addition& addition,
                   const LayerNorm& norm) {
  if (!y.split()) return add_norm_rows(y.values, sum, rows, addition, norm);
  check_addition(sum, rows, addition);
#ifdef VGGT_CUDA
  if (kernels_take(rows, addition.values) && addition.values.scalar_type() == at::kFloat && is_aligned(sum)) {
    RowPass pass = row_pass(rows);
    set_addition(pass, sum, addition);
    set_norm(pass, norm);
    pass.parts = matrix_of(y.parts);
    return run(pass, RowNorm::layer, addition.values);
  }
#endif
  add_rows(sum, rows, addition);
  norm_rows(y, sum, norm);
}

void gelu_rows_(at::Tensor& x) {
#ifdef VGGT_CUDA
  if (x.is_cuda() && x.is_contiguous() && x.numel() % 8 == 0 && is_aligned(x) &&
      (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf)) {
    const c10::cuda::CUDAGuard guard(x.device());
    return gelu_cuda(operand_type(x.scalar_type()), x.mutable_data_ptr(), x.numel(),
                     c10::cuda::getCurrentCUDAStream().stream());
  }
#endif
  at::gelu_(x);
}

}  // namespace vggt
