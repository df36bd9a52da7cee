#include "model/layers/layer_norm.h"

#include <algorithm>

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

}  // namespace vggt
