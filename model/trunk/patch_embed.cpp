#include "model/trunk/patch_embed.h"

namespace vggt {
namespace {

constexpr double kEps = 1e-6;  // of all norms of DINOv2
const std::string kName = "aggregator.patch_embed";

HeldBlocks make_blocks(Binder& bind, const Config& config, const AttentionOptions& attention) {
  HeldBlocks blocks;
  for (int64_t i = 0; i < config.vit_depth; ++i) {
    blocks.emplace_back(bind, [=, name = kName + ".blocks." + std::to_string(i)](Binder& from) {
      return Block(from, name, BlockSpec{config.embed_dim, config.vit_num_heads, kEps, false, attention});
    });
  }
  return blocks;
}

}  // namespace

PatchEmbed::PatchEmbed(Binder& bind, const Config& config, const AttentionOptions& attention)
    : patch_size_(config.patch_size),
      grid_(config.img_size / config.patch_size),
      cls_token_(bind.state(kName + ".cls_token", {1, 1, config.embed_dim})),
      pos_embed_(bind.state(kName + ".pos_embed", {1, 1 + grid_ * grid_, config.embed_dim})),
      proj_(bind, kName + ".patch_embed.proj", 3, config.embed_dim, config.patch_size),
      blocks_(make_blocks(bind, config, attention)),
      norm_(bind, kName + ".norm", config.embed_dim, kEps) {
  if (config.num_register_tokens > 0) {
    register_tokens_ =
        bind.state(kName + ".register_tokens", {1, config.num_register_tokens, config.embed_dim});
  }
  bind.record(kName + ".mask_token", {1, config.embed_dim});  // in every file, unused in inference
  if (cls_token_.defined()) {
    mean_ = at::tensor({0.485, 0.456, 0.406}, cls_token_.options()).view({1, 3, 1, 1});
    std_ = at::tensor({0.229, 0.224, 0.225}, cls_token_.options()).view({1, 3, 1, 1});
  }
}

at::Tensor PatchEmbed::position_embedding(int64_t rows, int64_t columns) const {
  const at::Tensor patches = pos_embed_.narrow(1, 1, grid_ * grid_);  // [1,grid·grid,C]
  if (rows == grid_ && columns == grid_) return patches;
  const at::Tensor map = patches.view({1, grid_, grid_, -1}).permute({0, 3, 1, 2});  // [1,C,grid,grid]
  const at::Tensor resized = at::_upsample_bicubic2d_aa(map, {rows, columns}, /*align_corners=*/false);
  return resized.permute({0, 2, 3, 1}).reshape({1, rows * columns, -1});
}

at::Tensor PatchEmbed::forward(const at::Tensor& images, BlockCursor& blocks) const {
  const int64_t F = images.size(0), rows = images.size(2) / patch_size_,
                columns = images.size(3) / patch_size_;
  const at::Tensor colours = (images - mean_) / std_;  // [F,3,H,W]
  const at::Tensor patches =
      proj_(colours.to(proj_.bias.scalar_type())) + position_embedding(rows, columns);  // [F,rows·columns,C]
  const at::Tensor cls = (cls_token_ + pos_embed_.narrow(1, 0, 1)).expand({F, -1, -1});  // [F,1,C]
  std::vector<at::Tensor> parts = {cls};
  if (register_tokens_.defined()) parts.push_back(register_tokens_.expand({F, -1, -1}));  // [F,R,C]
  parts.push_back(patches);
  at::Tensor tokens = at::cat(parts, 1);  // [F,1 + R + rows·columns,C]
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks.at(i).forward_(tokens);
  const int64_t special = tokens.size(1) - rows * columns;
  return norm_(tokens.narrow(1, special, rows * columns));
}

}  // namespace vggt
