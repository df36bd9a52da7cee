#pragma once
#include "model/layers/rope.h"
#include "model/trunk/block_cursor.h"
#include "model/trunk/patch_embed.h"

namespace vggt {

/// The trunk's weights: patch embedding, then alternating frame-wise and global blocks
/// (vggt/models/aggregator.py). TrunkRun runs them.
class Aggregator {
 public:
  /// attention: of the frame, global and DINOv2 blocks.
  Aggregator(Binder& bind, const Config& config, const AttentionOptions& attention);

  const Config& config() const { return config_; }
  const AttentionOptions& attention() const { return attention_; }
  const PatchEmbed& patch_embed() const { return patch_embed_; }
  const HeldBlocks& frame_blocks() const { return frame_blocks_; }
  const HeldBlocks& global_blocks() const { return global_blocks_; }
  /// Of the state type, on the device.
  at::TensorOptions options() const { return camera_token_.options(); }

  /// Tokens of frames from `first` on: images [F,3,H,W] in [0,1], state type -> written to tokens [F,P,C].
  void embed(int64_t first, const at::Tensor& images, BlockCursor& vit_blocks, at::Tensor& tokens) const;

 private:
  Config config_;
  AttentionOptions attention_;
  PatchEmbed patch_embed_;
  at::Tensor camera_token_;    // [1,2,1,C]: first frame, all others
  at::Tensor register_token_;  // [1,2,R,C]: likewise
  HeldBlocks frame_blocks_, global_blocks_;
};

}  // namespace vggt
