#include "model/trunk/token_store.h"

#include <algorithm>

namespace vggt {

TokenStore::TokenStore(int64_t frames, int64_t tokens_per_frame, int64_t channels,
                       std::vector<int64_t> kept_layers, const at::TensorOptions& options)
    : tokens_(at::empty({frames, tokens_per_frame, channels}, options)),
      kept_layers_(std::move(kept_layers)) {
  TORCH_CHECK(!kept_layers_.empty(), "TokenStore: no layer is kept");
}

int64_t TokenStore::last_layer() const {
  return *std::max_element(kept_layers_.begin(), kept_layers_.end());
}

void TokenStore::keep_frame_half(int64_t layer) {
  if (std::find(kept_layers_.begin(), kept_layers_.end(), layer) == kept_layers_.end()) return;
  const int64_t C = tokens_.size(2);
  at::Tensor& both = layers_[layer];
  both = at::empty({tokens_.size(0), tokens_.size(1), 2 * C}, tokens_.options());
  both.narrow(2, 0, C).copy_(tokens_);
}

void TokenStore::keep_global_half(int64_t layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return;
  const int64_t C = tokens_.size(2);
  found->second.narrow(2, C, C).copy_(tokens_);
}

const at::Tensor& TokenStore::all(int64_t layer) const {
  const auto found = layers_.find(layer);
  TORCH_CHECK(found != layers_.end(), "TokenStore: layer ", layer, " is not kept");
  return found->second;
}

at::Tensor TokenStore::slice(int64_t layer, int64_t first, int64_t count) const {
  return all(layer).narrow(0, first, count);
}

void TokenStore::release() {
  tokens_ = at::Tensor();
  layers_.clear();
}

}  // namespace vggt
