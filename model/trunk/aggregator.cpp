#include "model/trunk/aggregator.h"

namespace vggt {
namespace {

HeldBlocks make_blocks(Binder& bind, const std::string& name, const Config& config,
                       const AttentionOptions& attention) {
  HeldBlocks blocks;
  for (int64_t i = 0; i < config.depth; ++i) {
    blocks.emplace_back(bind, [=, name = name + std::to_string(i)](Binder& from) {
      return Block(from, name, BlockSpec{config.embed_dim, config.num_heads, 1e-5, true, attention});
    });
  }
  return blocks;
}

/// [1,2,K,C] -> [F,K,C] of frames from `first` on: entry 0 for frame 0, entry 1 for all others.
at::Tensor per_frame(const at::Tensor& token, int64_t first, int64_t count) {
  const at::Tensor others = token.select(1, 1).expand({count, -1, -1});
  if (first > 0) return others;
  if (count == 1) return token.select(1, 0);
  return at::cat({token.select(1, 0), others.narrow(0, 1, count - 1)});
}

}  // namespace

Aggregator::Aggregator(Binder& bind, const Config& config, const AttentionOptions& attention)
    : config_(config),
      attention_(attention),
      patch_embed_(bind, config, attention),
      camera_token_(bind.state("aggregator.camera_token", {1, 2, 1, config.embed_dim})),
      register_token_(
          bind.state("aggregator.register_token", {1, 2, config.num_register_tokens, config.embed_dim})),
      frame_blocks_(make_blocks(bind, "aggregator.frame_blocks.", config, attention)),
      global_blocks_(make_blocks(bind, "aggregator.global_blocks.", config, attention)) {}

void Aggregator::embed(int64_t first, const at::Tensor& images, BlockCursor& vit_blocks,
                       at::Tensor& tokens) const {
  const int64_t special = config_.special_tokens(), count = tokens.size(0);
  tokens.narrow(1, 0, 1).copy_(per_frame(camera_token_, first, count));
  tokens.narrow(1, 1, special - 1).copy_(per_frame(register_token_, first, count));
  tokens.narrow(1, special, tokens.size(1) - special).copy_(patch_embed_.forward(images, vit_blocks));
}

}  // namespace vggt
