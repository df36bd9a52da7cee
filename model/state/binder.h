#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/config.h"

namespace vggt {

/// What a checkpoint offers: the shapes of all its tensors, and a way to load one of them to a type and
/// device.
struct TensorSource {
  TensorShapes shapes;
  std::function<at::Tensor(const std::string& name, at::ScalarType type, at::Device device)> load;
};

/// Types that a part of the model computes in.
struct ComputeTypes {
  at::ScalarType operand;  // of matrix products and convolutions
  at::ScalarType state;    // of the residual stream, norms, tokens: fp32, or fp64 in a float64 run
};

/// Hands tensors to the parts of the model by name and records what was asked for (`taken`).
/// Without a source, or while loading is off, it only records: the parts then hold undefined tensors.
class Binder {
 public:
  Binder(const TensorSource* source, ComputeTypes types, at::Device device)
      : source_(source), types_(types), device_(device) {}

  /// A tensor that enters a matrix product or convolution.
  at::Tensor operand(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), types_.operand);
  }
  /// A tensor of norms, tokens, LayerScale.
  at::Tensor state(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), types_.state);
  }

  /// A tensor that checkpoints hold and inference does not need.
  void record(const std::string& name, std::vector<int64_t> shape);

  void set_types(ComputeTypes types) { types_ = types; }
  const TensorShapes& taken() const { return taken_; }

 private:
  at::Tensor take(const std::string& name, std::vector<int64_t> shape, at::ScalarType type);

  const TensorSource* source_;
  ComputeTypes types_;
  at::Device device_;
  TensorShapes taken_;
};

/// Throws std::invalid_argument listing every missing, misshapen and left-over tensor.
void check_shapes(const TensorShapes& expected, const TensorShapes& offered);

}  // namespace vggt
