#pragma once
#include <ATen/ATen.h>

#include <map>
#include <vector>

namespace vggt {

/// The tokens of all frames: the residual stream, and the outputs of the layers that heads read. All tensors
/// lie on one device. Heads ask for pieces of frames, so that the outputs can move elsewhere without them.
class TokenStore {
 public:
  /// For the residual [S,P,C], uninitialised; keeps these layers.
  TokenStore(int64_t frames, int64_t tokens_per_frame, int64_t channels, std::vector<int64_t> kept_layers,
             const at::TensorOptions& options);

  /// The residual [S,P,C], contiguous, state type.
  at::Tensor& tokens() { return tokens_; }
  /// The last layer that is kept.
  int64_t last_layer() const;

  /// Keep the residual as it is as the first half of a layer's output, after its frame block, and as the
  /// second, after its global block. Neither does anything for a layer that is not kept.
  void keep_frame_half(int64_t layer);
  void keep_global_half(int64_t layer);

  /// Frames [first, first + count) of a kept layer: [count,P,2C], frame block's half first.
  at::Tensor slice(int64_t layer, int64_t first, int64_t count) const;

  /// The camera tokens, the first of each frame, of a kept layer: [S,2C].
  at::Tensor camera_tokens(int64_t layer) const { return all(layer).select(1, 0); }

  /// Frees the residual: no more layers follow.
  void release_tokens() { tokens_ = at::Tensor(); }
  /// Frees everything.
  void release();

 private:
  const at::Tensor& all(int64_t layer) const;  // [S,P,2C]

  at::Tensor tokens_;                     // [S,P,C]
  std::vector<int64_t> kept_layers_;      // may name one twice
  std::map<int64_t, at::Tensor> layers_;  // index -> [S,P,2C]
};

}  // namespace vggt
