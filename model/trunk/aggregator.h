#pragma once
#include <map>
#include <vector>

#include "model/observer.h"
#include "model/trunk/patch_embed.h"
#include "model/vggt.h"

namespace vggt {

/// Outputs of the picked layers: index -> [S,P,2C], frame block's tokens and global block's tokens side by
/// side.
using LayerTokens = std::map<int64_t, at::Tensor>;

/// Patch tokens of all frames, then alternating frame-wise and global blocks (vggt/models/aggregator.py).
class Aggregator {
 public:
  /// attention: of the frame, global and DINOv2 blocks.
  Aggregator(Binder& bind, const Config& config, const AttentionOptions& attention);

  /// Keeps the layers in `picks`. frames_per_chunk: how many frames the patch embedder takes at once.
  LayerTokens forward(const FrameProvider& frames, const std::vector<int64_t>& picks,
                      int64_t frames_per_chunk, const Observer& observer) const;

 private:
  at::Tensor embed(const FrameProvider& frames, int64_t frames_per_chunk, const Observer& observer) const;

  Config config_;
  PatchEmbed patch_embed_;
  at::Tensor camera_token_;    // [1,2,1,C]: first frame, all others
  at::Tensor register_token_;  // [1,2,R,C]: likewise
  std::vector<Block> frame_blocks_, global_blocks_;
};

}  // namespace vggt
