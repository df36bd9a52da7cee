#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace vggt {

/// What a checkpoint offers: the shapes of all its tensors, and a way to load one of them to a type and device.
struct TensorSource {
  TensorShapes shapes;
  std::function<at::Tensor(const std::string& name, at::ScalarType type, at::Device device)> load;
};

/// Hands tensors to the parts of the model by name and checks that names and shapes match exactly.
/// Without a source it only records what the model would take (`taken`).
class Binder {
 public:
  Binder(const TensorSource* source, at::ScalarType compute_type, at::ScalarType state_type, at::Device device)
      : source_(source), compute_type_(compute_type), state_type_(state_type), device_(device) {}

  /// A tensor that enters a matrix product or convolution: loaded in the compute type.
  at::Tensor operand(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), compute_type_);
  }
  /// A tensor of norms, tokens, LayerScale: loaded in the state type (fp32, or fp64 in a float64 run).
  at::Tensor state(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), state_type_);
  }
  /// From here on (until called with true) tensors are checked but not loaded: heads that stay off.
  void set_loading(bool loading) { loading_ = loading; }

  at::ScalarType compute_type() const { return compute_type_; }
  at::ScalarType state_type() const { return state_type_; }
  at::Device device() const { return device_; }
  const TensorShapes& taken() const { return taken_; }

  /// Throws std::invalid_argument listing every missing, misshapen and left-over tensor.
  void check() const;

 private:
  at::Tensor take(const std::string& name, std::vector<int64_t> shape, at::ScalarType type);

  const TensorSource* source_;
  at::ScalarType compute_type_, state_type_;
  at::Device device_;
  bool loading_ = true;
  TensorShapes taken_;
};

}  // namespace vggt
