#include "attention/bench/limits.h"

namespace vggt {

ExactnessLimits limits_of(const std::string& name, at::ScalarType type) {
  ExactnessLimits limits{1e-6, 4e-6};  // on a CPU
  if (name == "strict") limits.output = 5e-7;
  if (name == "split") limits = {1.5e-6, 8e-6};
  // Operands keep 11 bits, of which logits alone make an error of 3e-4.
  if (name == "turbo") limits = {5e-4, 4e-3};
  // Weights are rounded to the type, and a share of them has the error of a cubic.
  if (name == "half") limits = {4e-3, 2e-4};
  if (type == at::kBFloat16) limits.output = 4e-3;
  if (type == at::kHalf) limits.output = 5e-4;
  return limits;
}

}  // namespace vggt
