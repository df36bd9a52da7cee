#include "model/layers/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vggt {

LayerNorm::LayerNorm(Binder& bind, const std::string& name, int64_t channels, double epsilon)
    : weight(bind.state(name + ".weight", {channels})),
      bias(bind.state(name + ".bias", {channels})),
      eps(epsilon) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x, int64_t most_elements) const {
  const auto norm = [&](const at::Tensor& part) {
    return at::layer_norm(part.to(weight.scalar_type()), weight.sizes(), weight, bias, eps);
  };
  if (x.numel() <= most_elements) return norm(x);
  const int64_t C = x.size(-1);
  const at::Tensor rows = x.reshape({-1, C});                                    // [M,C]
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(weight.scalar_type()));  // [...,C]
  at::Tensor y_rows = y.view({-1, C});                                           // [M,C]
  const int64_t most = std::max<int64_t>(1, most_elements / C);
  for (int64_t first = 0; first < rows.size(0); first += most) {
    const int64_t count = std::min(most, rows.size(0) - first);
    y_rows.narrow(0, first, count).copy_(norm(rows.narrow(0, first, count)));
  }
  return y;
}

at::Tensor norm_product_bounds(const LayerNorm& norm, const at::Tensor& weight, const at::Tensor& bias,
                               int64_t groups) {
  // A megabyte at a time, which LibTorch's allocator does not round up to 20.
  constexpr int64_t kPieceElements = 1 << 18;
  constexpr double kRounding = 1.001, kLeast = 0x1p-100, kMost = std::numeric_limits<float>::max();
  // A row is norm.weight·u + norm.bias, where u has a length of √C at most.
  const double length = std::sqrt(static_cast<double>(weight.size(1)));
  // Without matrix products: cuBLAS would keep memory for each stream that weights come on.
  std::vector<at::Tensor> far, middle;
  for (const at::Tensor& rows : weight.split(std::max<int64_t>(1, kPieceElements / weight.size(1)))) {
    far.push_back((rows * norm.weight).norm(2, 1) * length);
    middle.push_back((rows * norm.bias).sum(1));
  }
  const at::Tensor outputs = at::cat(far) + (at::cat(middle) + bias).abs();  // [out]
  const at::Tensor most = outputs.view({groups, -1}).amax(1) * kRounding;
  return at::nan_to_num(most, kMost, kMost).clamp(kLeast, kMost);
}

}  // namespace vggt
