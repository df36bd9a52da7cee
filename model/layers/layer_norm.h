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

}  // namespace vggt
