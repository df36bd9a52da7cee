#pragma once
#include "model/state/binder.h"

namespace vggt {

/// Seeded random tensors of a model with these heads, for benchmarks and tests: LayerScale 0.01, norms 1 and
/// 0, weights normal with the variance that keeps activations' size. Finite outputs, meaningless scenes. The
/// same seed gives the same tensor on the same kind of device, in whatever order they are loaded.
TensorSource random_weights(const Config& config, const Heads& heads, uint64_t seed);

}  // namespace vggt
