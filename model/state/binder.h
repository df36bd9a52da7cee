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
  /// Whether a tensor is known to have no infinity and no NaN; may be empty: of none.
  std::function<bool(const std::string& name)> known_finite = {};
};

/// How a part of the model computes.
struct ComputeKind {
  at::ScalarType operand;          // of matrix products and convolutions
  at::ScalarType state;            // of the residual stream, norms, tokens: fp32, or fp64 in a float64 run
  bool tf32_products = false;      // whether products of fp32 operands are TF32 on a GPU
  bool tf32_convolutions = false;  // whether convolutions of them may be
  bool few_rows = false;           // its linear layers see a few hundred rows at most
};

/// Hands tensors to the parts of the model by name and records what was asked for (`taken`).
/// Without a source it only records: the parts then hold undefined tensors.
class Binder {
 public:
  /// on_host: the weights of parts that can wait on the host (HeldPart) stay there until they are needed.
  Binder(const TensorSource* source, const ComputeKind& kind, at::Device device, bool on_host = false)
      : source_(source), kind_(kind), device_(device), on_host_(on_host) {}

  /// A tensor that enters a matrix product or convolution.
  at::Tensor operand(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), kind_.operand);
  }
  /// A tensor of norms, tokens, LayerScale.
  at::Tensor state(const std::string& name, std::vector<int64_t> shape) {
    return take(name, std::move(shape), kind_.state);
  }

  /// As TensorSource's, of a tensor that was taken.
  bool known_finite(const std::string& name) const {
    return source_ && source_->known_finite && source_->known_finite(name);
  }

  /// Takes note of a tensor that checkpoints hold and inference does not need.
  void record(const std::string& name, std::vector<int64_t> shape);

  /// Of the parts that bind from now on.
  void set_kind(const ComputeKind& kind) { kind_ = kind; }
  const ComputeKind& kind() const { return kind_; }
  const TensorShapes& taken() const { return taken_; }
  const TensorSource* source() const { return source_; }
  at::Device device() const { return device_; }
  bool on_host() const { return on_host_ && source_ != nullptr; }

 private:
  at::Tensor take(const std::string& name, std::vector<int64_t> shape, at::ScalarType type);

  const TensorSource* source_;
  ComputeKind kind_;
  at::Device device_;
  bool on_host_;
  TensorShapes taken_;
};

/// Throws std::invalid_argument listing every missing, misshapen and left-over tensor.
void check_shapes(const TensorShapes& expected, const TensorShapes& offered);

}  // namespace vggt
