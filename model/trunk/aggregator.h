#pragma once
#include <optional>
#include <vector>

#include "model/frame_provider.h"
#include "model/merge_options.h"
#include "model/observer.h"
#include "model/trunk/patch_embed.h"
#include "model/trunk/token_store.h"

namespace vggt {

/// Patch tokens of all frames, then alternating frame-wise and global blocks (vggt/models/aggregator.py).
class Aggregator {
 public:
  /// attention: of the frame, global and DINOv2 blocks.
  Aggregator(Binder& bind, const Config& config, const AttentionOptions& attention);

  /// The outputs of the layers in `picks`, each [S,P,2C]. frames_per_chunk: how many frames the patch
  /// embedder takes at once. merge: global blocks from its start on attend to merged tokens.
  TokenStore forward(const FrameProvider& frames, const std::vector<int64_t>& picks, int64_t frames_per_chunk,
                     const std::optional<MergeOptions>& merge, const Observer& observer) const;

 private:
  void embed(const FrameProvider& frames, int64_t frames_per_chunk, const Observer& observer,
             at::Tensor& tokens) const;

  Config config_;
  PatchEmbed patch_embed_;
  at::Tensor camera_token_;    // [1,2,1,C]: first frame, all others
  at::Tensor register_token_;  // [1,2,R,C]: likewise
  std::vector<Block> frame_blocks_, global_blocks_;
};

}  // namespace vggt
