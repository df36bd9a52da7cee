#include "model/layers/linear.h"

#include <ATen/Context.h>

#include "model/layers/cpu_product.h"
#include "model/layers/row_passes.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#include "model/layers/alignment.h"
#include "model/layers/joined_gemm.h"
#include "model/layers/joined_linear.h"
#endif

namespace vggt {

void check_tf32_setting(const at::Tensor& x, bool tf32) {
  if (!x.is_cuda() || x.scalar_type() != at::kFloat) return;
  const bool allowed = at::globalContext().allowTF32CuBLAS();
  TORCH_CHECK(allowed == tf32, "this model computes its products in ", tf32 ? "TF32" : "fp32",
              ": expected the process to have called at::globalContext().setAllowTF32CuBLAS(",
              tf32 ? "true" : "false", "), got ", allowed ? "true" : "false");
}

ProductRows ProductRows::first(int64_t count) const {
  if (!split()) return {values.narrow(0, 0, count), {}};
  return {{}, {parts.memory, count, parts.columns}};
}

Linear::Linear(Binder& bind, const std::string& name, int64_t in, int64_t out)
    : bias(bind.operand(name + ".bias", {out})),
      weight(bind.operand(name + ".weight", {out, in})),
      tf32(bind.kind().tf32_products),
      few_rows(bind.kind().few_rows) {
  split(bind.known_finite(name + ".weight"));
}

Linear::Linear(const at::Tensor& weight, const at::Tensor& bias, const ComputeKind& kind)
    : bias(bias), weight(weight), tf32(kind.tf32_products), few_rows(kind.few_rows) {
  split();
}

void Linear::split([[maybe_unused]] bool known_finite) {
#ifdef VGGT_CUDA
  if (!weight.defined() || !weight.is_cuda()) return;
  const bool is_aligned = reinterpret_cast<uintptr_t>(bias.const_data_ptr()) % 8 == 0;
  const bool fp32 = weight.scalar_type() == at::kFloat;
  if (!split_pays({weight.size(1), weight.size(0), fp32, tf32, few_rows, is_aligned,
                   cuda_device(weight.device()).wgmma}))
    return;
  const SplitWeight made = split_weight(weight, known_finite);
  if (!made.finite) return;
  parts = made;
  weight = at::Tensor();
#endif
}

Linear Linear::outputs(int64_t first, int64_t count) const {
  Linear some = *this;
  some.bias = bias.narrow(0, first, count);
  if (weight.defined()) some.weight = weight.narrow(0, first, count);
  if (parts.memory.defined()) some.parts = rows_of(parts, first, count);
  return some;
}

at::Tensor Linear::product_of(const at::Tensor& x) const {
  return onednn_pays(weight, few_rows) ? linear_onednn(x, weight, bias) : at::linear(x, weight, bias);
}

void Linear::write_product(at::Tensor& y, const at::Tensor& rows) const {
  if (onednn_pays(weight, few_rows)) {
    y.copy_(linear_onednn(rows, weight, bias));
  } else {
    at::addmm_out(y, bias, rows, weight.t());
  }
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const at::Tensor input = x.to(bias.scalar_type());
  if (splits()) return linear_split(input, parts, bias);
  check_tf32_setting(input, tf32);
  return product_of(input);
}

void Linear::write(at::Tensor& y, const at::Tensor& rows) const {
  const at::Tensor input = rows.to(bias.scalar_type());
  if (splits()) return linear_split_out(y, input, parts, bias);
  check_tf32_setting(input, tf32);
  write_product(y, input);
}

void Linear::write(at::Tensor& y, const ProductRows& rows) const {
  if (rows.split()) return linear_split_out(y, rows.parts, parts, bias);
  write(y, rows.values);
}

void Linear::write_joined(at::Tensor& y, at::TensorList rows) const {
  if (rows.size() == 1) return write(y, rows.front());
#ifdef VGGT_CUDA
  const bool has_type = rows.front().scalar_type() == bias.scalar_type();
  const bool is_half = bias.scalar_type() == at::kBFloat16 || bias.scalar_type() == at::kHalf;
  if (has_type && (splits() || (is_half && bias.size(0) % 8 == 0))) {
    const std::optional<JoinedRows> x = joined_rows(rows, splits() ? 4 : kJoinedColumns);
    if (x && splits()) return linear_split_out(y, *x, parts, bias);
    const bool fit = !splits() && is_aligned(weight) && weight.is_contiguous() && is_aligned(y) &&
                     reinterpret_cast<uintptr_t>(bias.const_data_ptr()) % 4 == 0;
    if (x && fit) return joined_linear_out(y, *x, weight, bias);
  }
#endif
  write(y, at::cat(rows, 1));
}

at::Tensor Linear::operator()(const ProductRows& rows) const {
  if (!rows.split()) return (*this)(rows.values);
  at::Tensor y = at::empty({rows.parts.rows, bias.size(0)}, bias.options());
  linear_split_out(y, rows.parts, parts, bias);
  return y;
}

ProductRows Linear::room(int64_t rows, const at::Tensor& like) const {
  if (splits()) return {{}, room_for_split(rows, parts.in, like)};
  return {at::empty({rows, weight.size(1)}, like.options().dtype(bias.scalar_type())), {}};
}

at::Tensor Linear::of_gelu_(at::Tensor& x) const {
  if (splits()) return linear_split(x, parts, bias, true);
  check_tf32_setting(x, tf32);
  gelu_rows_(x);
  return product_of(x);
}

void Linear::write_of_gelu_(at::Tensor& y, at::Tensor& x) const {
  if (splits()) return linear_split_out(y, x, parts, bias, true);
  check_tf32_setting(x, tf32);
  gelu_rows_(x);
  write_product(y, x);
}

}  // namespace vggt
