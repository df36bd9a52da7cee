// The refiner of depth of golden/refiner.safetensors, and the frames that it refines there.
#pragma once
#include <string>

#include "model/refine/depth_refiner.h"
#include "tests/support/golden.h"

namespace vggt::testing {

inline const Tensors& golden_refiner() {
  static const Tensors tensors = load_tensors(VGGT_FIXTURES "/golden/refiner.safetensors");
  return tensors;
}

/// Its tensors by the names that they have among a network's weights.
inline Tensors refiner_weights() {
  Tensors weights;
  const std::string prefix = "weights.";
  for (const auto& [name, tensor] : golden_refiner()) {
    if (name.starts_with(prefix)) weights[std::string(kRefinerPrefix) + name.substr(prefix.size())] = tensor;
  }
  return weights;
}

inline DepthRefiner load_refiner(const Tensors& weights) {
  TensorSource source;
  for (const auto& [name, tensor] : weights) source.shapes[name] = tensor.sizes().vec();
  source.load = [&weights](const std::string& name, at::ScalarType type, at::Device on) {
    return weights.at(name).to(on, type);
  };
  return DepthRefiner::load(source);
}

}  // namespace vggt::testing
