#include "model/trunk/aggregator.h"

#include <algorithm>

#include "model/trunk/token_merge.h"

namespace vggt {
namespace {

std::vector<Block> make_blocks(Binder& bind, const std::string& name, const Config& config,
                               const AttentionOptions& attention) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < config.depth; ++i) {
    blocks.emplace_back(bind, name + std::to_string(i),
                        BlockSpec{config.embed_dim, config.num_heads, 1e-5, true, attention});
  }
  return blocks;
}

/// [1,2,K,C] -> [S,K,C]: entry 0 for the first frame, entry 1 for all others.
at::Tensor per_frame(const at::Tensor& token, int64_t frames) {
  const at::Tensor first = token.select(1, 0);
  if (frames == 1) return first;
  return at::cat({first, token.select(1, 1).expand({frames - 1, -1, -1})});
}

/// Frames on the device, in [0,1] and the type of the tokens.
at::Tensor fetch(const FrameProvider& frames, int64_t first, int64_t count,
                 const at::TensorOptions& options) {
  const at::Tensor images = frames.get(first, count);  // [count,3,H,W]
  TORCH_CHECK(images.sizes() == at::IntArrayRef({count, 3, frames.height, frames.width}), "frames: expected ",
              at::IntArrayRef({count, 3, frames.height, frames.width}), ", got ", images.sizes());
  const at::Tensor values = images.to(options.device()).to(options.dtype());
  return images.scalar_type() == at::kByte ? values / 255 : values;
}

/// A global block on merged tokens: rows [N,C], updated in place.
void forward_merged_(const Block& block, at::Tensor& rows, const Rope& rope, const MergeLayout& layout) {
  const MergePlan plan = plan_merge(layout, block.metric(rows));
  // One name for all: each one's memory is free as soon as the next is made.
  at::Tensor x = block.project(rows, &rope);  // [N,3,A,D]
  x = plan.apply(x);                          // [M,3,A,D]
  x = block.attend(x, 1);                     // [M,C]
  x = block.project_out(x);                   // [M,C]
  block.finish_projected_(rows, x, plan.row_of);
}

}  // namespace

Aggregator::Aggregator(Binder& bind, const Config& config, const AttentionOptions& attention)
    : config_(config),
      patch_embed_(bind, config, attention),
      camera_token_(bind.state("aggregator.camera_token", {1, 2, 1, config.embed_dim})),
      register_token_(
          bind.state("aggregator.register_token", {1, 2, config.num_register_tokens, config.embed_dim})),
      frame_blocks_(make_blocks(bind, "aggregator.frame_blocks.", config, attention)),
      global_blocks_(make_blocks(bind, "aggregator.global_blocks.", config, attention)) {}

void Aggregator::embed(const FrameProvider& frames, int64_t frames_per_chunk, const Observer& observer,
                       at::Tensor& tokens) const {
  const int64_t S = tokens.size(0), special = config_.special_tokens(), patches = tokens.size(1) - special;
  tokens.narrow(1, 0, 1).copy_(per_frame(camera_token_, S));
  tokens.narrow(1, 1, special - 1).copy_(per_frame(register_token_, S));
  for (int64_t first = 0; first < S; first += frames_per_chunk) {
    report_progress(observer, "patch_embed", first, S);
    const int64_t count = std::min(frames_per_chunk, S - first);
    const at::Tensor embedded = patch_embed_.forward(fetch(frames, first, count, tokens.options()));
    tokens.narrow(0, first, count).narrow(1, special, patches).copy_(embedded);
  }
  report_progress(observer, "patch_embed", S, S);
  report_tensor(observer, "patch_embed", "patch_tokens", tokens.narrow(1, special, patches));
}

TokenStore Aggregator::forward(const FrameProvider& frames, const std::vector<int64_t>& picks,
                               int64_t frames_per_chunk, const std::optional<MergeOptions>& merge,
                               const Observer& observer) const {
  const int64_t rows = frames.height / config_.patch_size, columns = frames.width / config_.patch_size;
  const int64_t S = frames.frames, P = config_.special_tokens() + rows * columns, C = config_.embed_dim;
  TokenStore store(S, P, C, picks, camera_token_.options());
  at::Tensor& tokens = store.tokens();  // [S,P,C]
  embed(frames, frames_per_chunk, observer, tokens);
  const Rope rope(rows, columns, config_.special_tokens(), C / config_.num_heads, config_.rope_freq,
                  tokens.options());
  const int64_t last = store.last_layer(), first_merged = merge ? merge->start : last + 1;
  std::optional<MergeLayout> layout;
  if (first_merged <= last)
    layout = merge_layout(S, rows, columns, config_.special_tokens(), *merge, tokens.device());
  if (layout && layout->most_merged == 0) layout.reset();  // exact then, as in the reference
  for (int64_t i = 0; i <= last; ++i) {
    report_progress(observer, "aggregator", i, last + 1);
    frame_blocks_[i].forward_(tokens, &rope);
    report_tensor(observer, "aggregator", "frame_block." + std::to_string(i), tokens);
    store.keep_frame_half(i);
    at::Tensor sequence = tokens.view({1, S * P, C}), all = tokens.view({S * P, C});
    if (layout && i >= first_merged) {
      forward_merged_(global_blocks_[i], all, rope, *layout);
    } else {
      global_blocks_[i].forward_(sequence, &rope);
    }
    report_tensor(observer, "aggregator", "global_block." + std::to_string(i), sequence);
    store.keep_global_half(i);
  }
  store.release_tokens();
  report_progress(observer, "aggregator", last + 1, last + 1);
  return store;
}

}  // namespace vggt
