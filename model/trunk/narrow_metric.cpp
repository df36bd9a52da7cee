#include "model/trunk/narrow_metric.h"

#include <ATen/CPUGeneratorImpl.h>

namespace vggt {

at::Tensor draw_signs(int64_t channels, int64_t width, uint64_t seed) {
  const at::Tensor drawn =
      at::randint(2, {channels, width}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
  return (2 * drawn - 1).to(at::kFloat);
}

at::Tensor narrow_metric(const at::Tensor& metric, const at::Tensor& signs) {
  constexpr double kTiny = 1e-12;             // the least length: a token of zeros stays one
  at::Tensor narrow = at::mm(metric, signs);  // [n,width]
  const auto wide = narrow.element_size() == 2 ? at::kFloat : narrow.scalar_type();
  const at::Tensor length = at::linalg_vector_norm(narrow, 2, {1}, /*keepdim=*/true, wide).clamp_min_(kTiny);
  return narrow.div_(length);
}

}  // namespace vggt
