#include "model/bench/torch_heads.h"

#include <cmath>

#include "model/heads/head_constants.h"

namespace vggt {
namespace {

std::vector<TorchBlock> camera_trunk(Binder& bind, const Config& config) {
  std::vector<TorchBlock> trunk;
  for (int64_t i = 0; i < config.camera_trunk_depth; ++i)
    trunk.emplace_back(bind, "camera_head.trunk." + std::to_string(i),
                       BlockSpec{2 * config.embed_dim, config.camera_num_heads, 1e-5, false});
  return trunk;
}

std::vector<TorchConv> projects(Binder& bind, const Config& config, const std::string& name) {
  std::vector<TorchConv> all;
  for (std::size_t i = 0; i < 4; ++i)
    all.emplace_back(
        bind, name + ".projects." + std::to_string(i),
        TorchConv::Spec{.in = 2 * config.embed_dim, .out = config.dpt_out_channels[i], .kernel = 1});
  return all;
}

std::vector<TorchConv> layers_rn(Binder& bind, const Config& config, const DptSpec& spec) {
  std::vector<TorchConv> all;
  for (std::size_t i = 0; i < 4; ++i)
    all.emplace_back(bind, spec.name + ".scratch.layer" + std::to_string(i + 1) + "_rn",
                     TorchConv::Spec{.in = config.dpt_out_channels[i],
                                     .out = spec.features,
                                     .kernel = 3,
                                     .padding = 1,
                                     .has_bias = false});
  return all;
}

/// So many windows side by side, one for each pixel.
TorchConv::Spec up_spec(int64_t channels, int64_t scale) {
  return {.in = channels, .out = channels, .kernel = scale, .stride = scale, .transposed = true};
}

at::Tensor resized(const at::Tensor& x, int64_t rows, int64_t columns) {
  return at::upsample_bilinear2d(x, {rows, columns}, /*align_corners=*/true);
}

/// The embedding of n coordinates spread over ±span: [n,channels], fp64.
at::Tensor axis_table(int64_t n, double span, int64_t channels, const at::TensorOptions& options) {
  const double edge = span * static_cast<double>(n - 1) / static_cast<double>(n);
  const at::Tensor place = at::linspace(-edge, edge, n, options).to(at::kDouble),
                   power = at::arange(channels / 2, options.dtype(at::kDouble)) /
                           static_cast<double>(channels / 2);
  const at::Tensor angle = at::outer(place, at::pow(100.0, -power));  // [n,channels/2]
  return at::cat({at::sin(angle), at::cos(angle)}, 1);
}

/// x [F,C,h,w] plus 0.1 · the embedding of its places, of frames of this aspect ratio (width/height).
at::Tensor with_places(const at::Tensor& x, double aspect, const at::TensorOptions& state) {
  const int64_t C = x.size(1), h = x.size(2), w = x.size(3);
  const double diagonal = std::sqrt(aspect * aspect + 1);
  const at::Tensor along_x = axis_table(w, aspect / diagonal, C / 2, state).to(state.dtype()),
                   along_y = axis_table(h, 1 / diagonal, C / 2, state).to(state.dtype());
  const at::Tensor places =
      at::cat({along_x.unsqueeze(0).expand({h, -1, -1}), along_y.unsqueeze(1).expand({-1, w, -1})},
              2);  // [h,w,C]
  return x + (0.1 * places).permute({2, 0, 1}).to(x.scalar_type());
}

/// A head's last layer, in the state type.
TorchConv last_layer(Binder& bind, const DptSpec& spec) {
  const ComputeKind kind = bind.kind();
  ComputeKind of_state = kind;
  of_state.operand = kind.state;
  bind.set_kind(of_state);
  TorchConv last(bind, spec.name + ".scratch.output_conv2.2",
                 {.in = kDptLastChannels, .out = spec.outputs, .kernel = 1});
  bind.set_kind(kind);
  return last;
}

}  // namespace

TorchCameraHead::TorchCameraHead(Binder& bind, const Config& config)
    : token_norm_(bind, "camera_head.token_norm", 2 * config.embed_dim),
      trunk_norm_(bind, "camera_head.trunk_norm", 2 * config.embed_dim),
      empty_pose_tokens_(bind.state("camera_head.empty_pose_tokens", {1, 1, 9})),
      embed_pose_(bind, "camera_head.embed_pose", 9, 2 * config.embed_dim),
      modulation_(bind, "camera_head.poseLN_modulation.1", 2 * config.embed_dim, 6 * config.embed_dim),
      trunk_(camera_trunk(bind, config)),
      pose_branch_(bind, "camera_head.pose_branch", 2 * config.embed_dim, config.embed_dim, 9) {}

at::Tensor TorchCameraHead::forward(const at::Tensor& tokens) const {
  constexpr int kIterations = 4;
  const int64_t S = tokens.size(0), dim = tokens.size(1);
  const at::Tensor x = token_norm_(tokens).unsqueeze(0);             // [1,S,2C]
  const at::Tensor normed = at::layer_norm(x, {dim}, {}, {}, 1e-6);  // [1,S,2C]
  at::Tensor pose = at::zeros({1, S, 9}, x.options());
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor input = i == 0 ? empty_pose_tokens_.expand({1, S, 9}) : pose;
    const auto parts = modulation_(at::silu(embed_pose_(input))).chunk(3, -1);  // shift, scale, gate [1,S,2C]
    at::Tensor y = x + parts[2] * (normed * (1 + parts[1]) + parts[0]);
    for (const TorchBlock& block : trunk_) y = block.forward(y);
    pose = pose + pose_branch_(trunk_norm_(y));
  }
  return at::cat({pose.narrow(2, 0, 7), at::relu(pose.narrow(2, 7, 2))}, 2).squeeze(0);
}

TorchDptHead::Unit::Unit(Binder& bind, const std::string& name, int64_t features)
    : conv1(bind, name + ".conv1", {.in = features, .out = features, .kernel = 3, .padding = 1}),
      conv2(bind, name + ".conv2", {.in = features, .out = features, .kernel = 3, .padding = 1}) {}

// Upstream's first ReLU is in place, so that what is added is relu(x).
at::Tensor TorchDptHead::Unit::operator()(const at::Tensor& x) const {
  const at::Tensor positive = at::relu(x);
  at::Tensor hidden = conv1(positive);
  at::relu_(hidden);
  return conv2(hidden) + positive;
}

TorchDptHead::Fusion::Fusion(Binder& bind, const std::string& name, int64_t features, bool has_skip)
    : unit(bind, name + ".resConfUnit2", features),
      out_conv(bind, name + ".out_conv", {.in = features, .out = features, .kernel = 1}) {
  if (has_skip) skip_unit.emplace_back(bind, name + ".resConfUnit1", features);
}

at::Tensor TorchDptHead::Fusion::operator()(at::Tensor x, const at::Tensor& skip, int64_t rows,
                                            int64_t columns) const {
  if (!skip_unit.empty()) x = x + skip_unit[0](skip);
  return out_conv(resized(unit(x), rows, columns));
}

TorchDptHead::TorchDptHead(Binder& bind, const Config& config, const DptSpec& spec)
    : spec_(spec),
      patch_size_(config.patch_size),
      special_tokens_(config.special_tokens()),
      norm_(bind, spec.name + ".norm", 2 * config.embed_dim),
      projects_(projects(bind, config, spec.name)),
      up4_(bind, spec.name + ".resize_layers.0", up_spec(config.dpt_out_channels[0], 4)),
      up2_(bind, spec.name + ".resize_layers.1", up_spec(config.dpt_out_channels[1], 2)),
      down_(bind, spec.name + ".resize_layers.3",
            {.in = config.dpt_out_channels[3],
             .out = config.dpt_out_channels[3],
             .kernel = 3,
             .stride = 2,
             .padding = 1}),
      layer_rn_(layers_rn(bind, config, spec)),
      refinenet1_(bind, spec.name + ".scratch.refinenet1", spec.features, true),
      refinenet2_(bind, spec.name + ".scratch.refinenet2", spec.features, true),
      refinenet3_(bind, spec.name + ".scratch.refinenet3", spec.features, true),
      refinenet4_(bind, spec.name + ".scratch.refinenet4", spec.features, false),
      output_conv1_(bind, spec.name + ".scratch.output_conv1",
                    {.in = spec.features, .out = spec.features / 2, .kernel = 3, .padding = 1}),
      output_conv2_(bind, spec.name + ".scratch.output_conv2.0",
                    {.in = spec.features / 2, .out = kDptLastChannels, .kernel = 3, .padding = 1}),
      last_(last_layer(bind, spec)) {}

at::Tensor TorchDptHead::reassemble(std::size_t level, const at::Tensor& tokens, int64_t height,
                                    int64_t width) const {
  const int64_t rows = height / patch_size_, columns = width / patch_size_;
  const at::Tensor patches = tokens.narrow(1, special_tokens_, rows * columns);  // [F,p,2C]
  const at::Tensor map = norm_(patches).transpose(1, 2).reshape({tokens.size(0), -1, rows, columns});
  at::Tensor x = projects_[level](map);  // [F,c,rows,columns]
  if (spec_.position_embedding)
    x = with_places(x, static_cast<double>(width) / static_cast<double>(height), last_.weight.options());
  if (level == 0) x = up4_(x);
  if (level == 1) x = up2_(x);
  if (level == 3) x = down_(x);
  return layer_rn_[level](x);  // [F,features,h,w]
}

at::Tensor TorchDptHead::forward(const std::array<at::Tensor, 4>& tokens, int64_t height,
                                 int64_t width) const {
  std::array<at::Tensor, 4> maps;
  for (std::size_t level = 0; level < 4; ++level)
    maps[level] = reassemble(level, tokens[level], height, width);
  const auto fused = [&](const Fusion& fusion, const at::Tensor& x, std::size_t level,
                         const at::Tensor& like) {
    return fusion(x, level == 3 ? at::Tensor() : maps[level], like.size(2), like.size(3));
  };
  at::Tensor x = fused(refinenet4_, maps[3], 3, maps[2]);
  x = fused(refinenet3_, x, 2, maps[1]);
  x = fused(refinenet2_, x, 1, maps[0]);
  x = refinenet1_(x, maps[0], 2 * maps[0].size(2), 2 * maps[0].size(3));
  x = resized(output_conv1_(x), height / spec_.down_ratio, width / spec_.down_ratio);
  if (spec_.position_embedding)
    x = with_places(x, static_cast<double>(width) / static_cast<double>(height), last_.weight.options());
  return last_(at::relu(output_conv2_(x)));
}

}  // namespace vggt
