#include "model/heads/axis_embedding.h"

namespace vggt {

at::Tensor axis_embedding(const at::Tensor& coordinates, int64_t channels, double base) {
  const at::Tensor exponents =
      at::arange(channels / 2, at::TensorOptions().dtype(at::kDouble)) / (static_cast<double>(channels) / 2);
  const at::Tensor omega = at::reciprocal(at::pow(at::Scalar(base), exponents));  // [channels/2]
  const at::Tensor angles = coordinates.to(at::kDouble).unsqueeze(1) * omega.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, 1);
}

}  // namespace vggt
