#pragma once
#include <string>
#include <vector>

#include "model/config.h"
#include "model/layers/conv.h"
#include "model/trunk/block_cursor.h"

namespace vggt {

/// DINOv2's vision transformer with registers, giving one token per patch
/// (vggt/layers/vision_transformer.py).
class PatchEmbed {
 public:
  PatchEmbed(Binder& bind, const Config& config, const AttentionOptions& attention);

  /// images [F,3,H,W] in [0,1], state type -> normalised patch tokens [F,(H/14)(W/14),C], state type.
  /// blocks: a cursor over blocks().
  at::Tensor forward(const at::Tensor& images, BlockCursor& blocks) const;
  const HeldBlocks& blocks() const { return blocks_; }

 private:
  at::Tensor position_embedding(int64_t rows, int64_t columns) const;  // [1,rows·columns,C]

  int64_t patch_size_, grid_;
  at::Tensor mean_, std_;       // [1,3,1,1] of the colours
  at::Tensor cls_token_;        // [1,1,C]
  at::Tensor register_tokens_;  // [1,R,C]
  at::Tensor pos_embed_;        // [1,1 + grid·grid,C]
  PatchConv proj_;
  HeldBlocks blocks_;
  LayerNorm norm_;
};

}  // namespace vggt
