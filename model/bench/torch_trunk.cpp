#include "model/bench/torch_trunk.h"

namespace vggt {
namespace {

constexpr double kVitEps = 1e-6;
const std::string kVit = "aggregator.patch_embed";

std::vector<TorchBlock> make_blocks(Binder& bind, const std::string& name, int64_t count,
                                    const BlockSpec& spec) {
  std::vector<TorchBlock> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.emplace_back(bind, name + "." + std::to_string(i), spec);
  return blocks;
}

BlockSpec trunk_spec(const Config& config) {
  return {config.embed_dim, config.num_heads, 1e-5, true};
}

/// [1,2,K,C] -> [S,K,C]: entry 0 for frame 0, entry 1 for all others.
at::Tensor per_frame(const at::Tensor& token, int64_t frames) {
  return at::cat({token.select(1, 0), token.select(1, 1).expand({frames - 1, -1, -1})});
}

at::Tensor of_colours(std::initializer_list<double> values, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<double>(values), like.options()).view({1, 3, 1, 1});
}

}  // namespace

TorchTrunk::TorchTrunk(Binder& bind, const Config& config)
    : config_(config),
      cls_token_(bind.state(kVit + ".cls_token", {1, 1, config.embed_dim})),
      pos_embed_(
          bind.state(kVit + ".pos_embed",
                     {1, 1 + (config.img_size / config.patch_size) * (config.img_size / config.patch_size),
                      config.embed_dim})),
      proj_(bind, kVit + ".patch_embed.proj",
            {.in = 3, .out = config.embed_dim, .kernel = config.patch_size, .stride = config.patch_size}),
      vit_blocks_(make_blocks(bind, kVit + ".blocks", config.vit_depth,
                              {config.embed_dim, config.vit_num_heads, kVitEps, false})),
      vit_norm_(bind, kVit + ".norm", config.embed_dim, kVitEps),
      camera_token_(bind.state("aggregator.camera_token", {1, 2, 1, config.embed_dim})),
      frame_registers_(
          bind.state("aggregator.register_token", {1, 2, config.num_register_tokens, config.embed_dim})),
      frame_blocks_(make_blocks(bind, "aggregator.frame_blocks", config.depth, trunk_spec(config))),
      global_blocks_(make_blocks(bind, "aggregator.global_blocks", config.depth, trunk_spec(config))) {
  if (config.num_register_tokens > 0)
    register_tokens_ =
        bind.state(kVit + ".register_tokens", {1, config.num_register_tokens, config.embed_dim});
}

at::Tensor TorchTrunk::position_embedding(int64_t rows, int64_t columns) const {
  const int64_t grid = config_.img_size / config_.patch_size;
  const at::Tensor patches = pos_embed_.narrow(1, 1, grid * grid);  // [1,grid·grid,C]
  if (rows == grid && columns == grid) return patches;
  const at::Tensor map = patches.view({1, grid, grid, -1}).permute({0, 3, 1, 2});  // [1,C,grid,grid]
  return at::_upsample_bicubic2d_aa(map, {rows, columns}, /*align_corners=*/false)
      .permute({0, 2, 3, 1})
      .reshape({1, rows * columns, -1});
}

at::Tensor TorchTrunk::embed(const at::Tensor& images) const {
  const int64_t S = images.size(0);
  const at::Tensor colours = (images - of_colours({0.485, 0.456, 0.406}, images)) /
                             of_colours({0.229, 0.224, 0.225}, images);  // [S,3,H,W]
  const at::Tensor map = proj_(colours);                                 // [S,C,rows,columns]
  const int64_t rows = map.size(2), columns = map.size(3);
  std::vector<at::Tensor> parts = {(cls_token_ + pos_embed_.narrow(1, 0, 1)).expand({S, -1, -1})};
  if (register_tokens_.defined()) parts.push_back(register_tokens_.expand({S, -1, -1}));
  parts.push_back(map.flatten(2).transpose(1, 2) + position_embedding(rows, columns));
  at::Tensor tokens = at::cat(parts, 1);  // [S,1 + R + rows·columns,C]
  for (const TorchBlock& block : vit_blocks_) tokens = block.forward(tokens);
  return vit_norm_(tokens).narrow(1, tokens.size(1) - rows * columns, rows * columns);
}

void TorchTrunk::run(const at::Tensor& images, const std::set<int64_t>& kept, const Keep& keep,
                     const Observer& observer) const {
  const int64_t S = images.size(0), last = *kept.rbegin(), rows = images.size(2) / config_.patch_size,
                columns = images.size(3) / config_.patch_size;
  report_progress(observer, "patch_embed", 0, S);
  at::Tensor x = at::cat({per_frame(camera_token_, S), per_frame(frame_registers_, S), embed(images)}, 1);
  report_progress(observer, "patch_embed", S, S);
  const int64_t P = x.size(1), C = x.size(2);
  const Rope rope(rows, columns, config_.special_tokens(), C / config_.num_heads, config_.rope_freq,
                  images.options());
  const TorchBlock::Angles of_frame = TorchBlock::angles(rope, 1), of_all = TorchBlock::angles(rope, S);
  for (int64_t layer = 0; layer <= last; ++layer) {
    report_progress(observer, "aggregator", layer, last + 1);
    const auto at = static_cast<std::size_t>(layer);
    const at::Tensor half = frame_blocks_[at].forward(x, &of_frame);  // [S,P,C]
    x = global_blocks_[at].forward(half.view({1, S * P, C}), &of_all).view({S, P, C});
    if (kept.contains(layer)) keep(layer, at::cat({half, x}, 2));
  }
  report_progress(observer, "aggregator", last + 1, last + 1);
}

}  // namespace vggt
