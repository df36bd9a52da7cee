#pragma once
#include <ATen/ATen.h>

#include <string>

#include "model/layers/work_sizes.h"
#include "model/state/binder.h"

namespace vggt {

/// LayerNorm over the last dimension, in the state type.
struct LayerNorm {
  at::Tensor weight, bias;  // [C]
  double eps;

  LayerNorm(Binder& bind, const std::string& name, int64_t channels, double epsilon = 1e-5);

  /// x [...,C] of any floating type -> [...,C], in calls of at most so many elements.
  at::Tensor operator()(const at::Tensor& x, int64_t most_elements = kNormElements) const;
};

/// What no |x·weightᵀ + bias| exceeds where x is what the norm makes of any row, the largest of each of so
/// many groups of outputs: weight [out,C], bias [out], state type -> [groups], positive and finite where fp32
/// has such a number.
at::Tensor norm_product_bounds(const LayerNorm& norm, const at::Tensor& weight, const at::Tensor& bias,
                               int64_t groups);

}  // namespace vggt
