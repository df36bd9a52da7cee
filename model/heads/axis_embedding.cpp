#include "model/heads/axis_embedding.h"

#include <cmath>
#include <vector>

namespace vggt {

// Loops on one thread: for so few numbers LibTorch's operations would wake all threads, which takes
// milliseconds each where other work keeps the cores busy.
at::Tensor axis_embedding(const at::Tensor& coordinates, int64_t channels, double base) {
  const int64_t n = coordinates.size(0), half = channels / 2;
  const at::Tensor places = coordinates.to(at::kDouble).contiguous();
  const auto* place = places.const_data_ptr<double>();
  std::vector<double> omega;
  for (int64_t j = 0; j < half; ++j)
    omega.push_back(1 / std::pow(base, static_cast<double>(j) / static_cast<double>(half)));
  at::Tensor embedding = at::empty({n, channels}, at::kDouble);
  auto* row = embedding.mutable_data_ptr<double>();
  for (int64_t i = 0; i < n; ++i, row += channels) {
    for (int64_t j = 0; j < half; ++j) {
      const double angle = place[i] * omega[static_cast<size_t>(j)];
      row[j] = std::sin(angle);
      row[half + j] = std::cos(angle);
    }
  }
  return embedding;
}

at::Tensor rounded_and_scaled(const at::Tensor& embedding, double scale, at::ScalarType type) {
  if (type == at::kDouble) return embedding * scale;
  at::Tensor result = at::empty(embedding.sizes(), at::kFloat);
  const auto* from = embedding.const_data_ptr<double>();
  auto* to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i)
    to[i] = static_cast<float>(from[i]) * static_cast<float>(scale);
  return result;
}

}  // namespace vggt
