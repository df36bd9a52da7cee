#include "attention/bench/limits.h"

namespace vggt {

ExactnessLimits limits_of(const std::string& name, at::ScalarType type) {
  ExactnessLimits limits{1e-6, 4e-6};  // on a CPU
  if (name == "strict") limits.output = 5e-7;
  if (name == "split") limits = {1.5e-6, 8e-6, 0.2};  // its sums have one level: one tile after another
  // Operands keep 11 bits; through the logits alone that makes an error of 3e-4.
  if (name == "turbo") limits = {5e-4, 4e-3};
  if (name == "half") limits = {4e-3, 2e-5};
  if (type == at::kBFloat16) limits.output = 4e-3;
  if (type == at::kHalf) limits.output = 5e-4;
  return limits;
}

}  // namespace vggt
