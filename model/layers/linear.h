#pragma once
#include <ATen/ATen.h>

#include <string>

#include "model/layers/split_linear.h"
#include "model/state/binder.h"

namespace vggt {

/// Throws c10::Error where LibTorch would compute a product of x in TF32 though tf32 is false, or in fp32
/// though it is true: that setting belongs to the process (ModelOptions).
void check_tf32_setting(const at::Tensor& x, bool tf32);

/// Rows that linear layers multiply: numbers [M,in] of the weights' type, or their parts.
struct ProductRows {
  at::Tensor values;
  SplitRows parts;  // where their memory is defined

  bool split() const { return parts.memory.defined(); }
  /// The same memory for the first `count` rows.
  ProductRows first(int64_t count) const;
};

/// A linear layer, in the type that its weights were loaded in. Where fp32 split into fp16 pays, loading puts
/// the parts of the weight in the place of its values.
struct Linear {
  at::Tensor bias;    // [out]
  at::Tensor weight;  // [out,in]; undefined where there are parts
  SplitWeight parts;  // where their memory is defined
  bool tf32;          // whether its products in fp32 are TF32
  bool few_rows;      // whether it sees a few hundred rows at most

  Linear(Binder& bind, const std::string& name, int64_t in, int64_t out);
  /// weight [out,in] and bias [out], of one type.
  Linear(const at::Tensor& weight, const at::Tensor& bias, const ComputeKind& kind);

  /// The layer that gives outputs [first, first + count) alone, of the same memory: first even.
  Linear outputs(int64_t first, int64_t count) const;

  /// x·weightᵀ + bias: x [...,in] of any floating type -> [...,out].
  at::Tensor operator()(const at::Tensor& x) const;
  /// The same of rows [M,in] into y [M,out], contiguous, of the weights' type.
  void write(at::Tensor& y, const at::Tensor& rows) const;
  void write(at::Tensor& y, const ProductRows& rows) const;
  /// The same of rows [M,in] whose columns lie in several matrices side by side. On Hopper no copy joins up
  /// to 16 of them, contiguous and aligned to 16 bytes, where the columns of each are a multiple of 64 and
  /// the outputs of 8, or, where they are split, the columns of 4.
  void write_joined(at::Tensor& y, at::TensorList rows) const;
  at::Tensor operator()(const ProductRows& rows) const;  // [M,in] -> [M,out]
  /// Whether it multiplies parts.
  bool splits() const { return parts.memory.defined(); }
  /// Memory for rows [M,in] in the form in which the layer multiplies them fastest, on the device of `like`.
  ProductRows room(int64_t rows, const at::Tensor& like) const;
  /// The same of GELU(x), exact GELU: x of the weights' type, which may be overwritten with GELU(x).
  at::Tensor of_gelu_(at::Tensor& x) const;
  /// of_gelu_() of x [M,in] into y [M,out], contiguous, of the weights' type.
  void write_of_gelu_(at::Tensor& y, at::Tensor& x) const;

 private:
  /// known_finite: the weight is, else the GPU is asked, which waits for it.
  void split(bool known_finite = false);
  // Without parts, x of the weights' type.
  at::Tensor product_of(const at::Tensor& x) const;
  void write_product(at::Tensor& y, const at::Tensor& rows) const;
};

}  // namespace vggt
