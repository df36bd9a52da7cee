#include "model/heads/dpt_head.h"

#include <cmath>

#include "model/heads/axis_embedding.h"
#include "model/heads/head_constants.h"
#include "model/layers/linear.h"

namespace vggt {
namespace {

at::Tensor resize(const at::Tensor& x, int64_t rows, int64_t columns) {
  return at::upsample_bilinear2d(x, {rows, columns}, /*align_corners=*/true);
}

/// The embedding of n coordinates spread over ±span: [n,channels], fp64.
at::Tensor spread_embedding(int64_t n, double span, int64_t channels, const at::TensorOptions& options) {
  const double edge = span * static_cast<double>(n - 1) / static_cast<double>(n);
  const at::Tensor coordinates = at::linspace(-edge, edge, n, options);  // [n], rounded as upstream
  return axis_embedding(coordinates, channels, 100);
}

/// x [F,C,h,w] += 0.1 · UV embedding for frames of this aspect ratio (width/height).
void add_position_embedding_(at::Tensor& x, double aspect) {
  const int64_t C = x.size(1), h = x.size(2), w = x.size(3);
  const double diagonal = std::sqrt(aspect * aspect + 1);
  const auto options =
      at::TensorOptions().device(at::kCPU).dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor along_x = spread_embedding(w, aspect / diagonal, C / 2, options);  // [w,C/2]
  const at::Tensor along_y = spread_embedding(h, 1 / diagonal, C / 2, options);       // [h,C/2]
  const auto prepare = [&](const at::Tensor& e) { return (e.to(options.dtype()) * 0.1).to(x.options()); };
  const at::Tensor map = at::cat({prepare(along_x).unsqueeze(0).expand({h, w, C / 2}),
                                  prepare(along_y).unsqueeze(1).expand({h, w, C / 2})},
                                 2);  // [h,w,C]
  x.add_(map.permute({2, 0, 1}).unsqueeze(0));
}

std::vector<Conv2d> make_projects(Binder& bind, const Config& config, const std::string& name) {
  std::vector<Conv2d> projects;
  for (size_t i = 0; i < 4; ++i) {
    projects.emplace_back(bind, name + ".projects." + std::to_string(i), 2 * config.embed_dim,
                          config.dpt_out_channels[i], 1);
  }
  return projects;
}

std::vector<Conv2d> make_layer_rn(Binder& bind, const Config& config, const std::string& name,
                                  int64_t features) {
  std::vector<Conv2d> layers;
  for (size_t i = 0; i < 4; ++i) {
    layers.emplace_back(bind, name + ".scratch.layer" + std::to_string(i + 1) + "_rn",
                        config.dpt_out_channels[i], features, 3, 1, 1, false);
  }
  return layers;
}

std::vector<Conv2d> make_output_conv2(Binder& bind, const DptSpec& spec) {
  std::vector<Conv2d> layers;
  if (spec.outputs == 0) return layers;
  const std::string name = spec.name + ".scratch.output_conv2.";
  layers.emplace_back(bind, name + "0", spec.features / 2, kDptLastChannels, 3, 1, 1);
  layers.emplace_back(bind, name + "2", kDptLastChannels, spec.outputs, 1);
  return layers;
}

}  // namespace

DptHead::ResidualUnit::ResidualUnit(Binder& bind, const std::string& name, int64_t features)
    : conv1(bind, name + ".conv1", features, features, 3, 1, 1),
      conv2(bind, name + ".conv2", features, features, 3, 1, 1) {}

at::Tensor DptHead::ResidualUnit::operator()(at::Tensor x) const {
  // Upstream's ReLU works in place, so the skip adds relu(x). No caller reads x again.
  at::relu_(x);
  at::Tensor hidden = conv1(x);
  at::relu_(hidden);
  return conv2(hidden).add_(x);
}

DptHead::FusionBlock::FusionBlock(Binder& bind, const std::string& name, int64_t features, bool has_skip)
    : unit(bind, name + ".resConfUnit2", features),
      out_conv(bind, name + ".out_conv", features, features, 1) {
  if (has_skip) skip_unit.emplace_back(bind, name + ".resConfUnit1", features);
}

at::Tensor DptHead::FusionBlock::operator()(at::Tensor x, const at::Tensor& skip, int64_t rows,
                                            int64_t columns) const {
  if (!skip_unit.empty()) x = skip_unit[0](skip).add_(x);
  // A 1×1 convolution and a bilinear resize commute; in this order the convolution has a quarter of the
  // pixels.
  return resize(out_conv(unit(x)), rows, columns);
}

DptHead::DptHead(Binder& bind, const Config& config, const DptSpec& spec)
    : spec_(spec),
      patch_size_(config.patch_size),
      special_tokens_(config.special_tokens()),
      norm_(bind, spec.name + ".norm", 2 * config.embed_dim),
      tf32_products_(bind.kind().tf32_products),
      projects_(make_projects(bind, config, spec.name)),
      up4_(bind, spec.name + ".resize_layers.0", config.dpt_out_channels[0], 4),
      up2_(bind, spec.name + ".resize_layers.1", config.dpt_out_channels[1], 2),
      down_(bind, spec.name + ".resize_layers.3", config.dpt_out_channels[3], config.dpt_out_channels[3], 3,
            2, 1),
      layer_rn_(make_layer_rn(bind, config, spec.name, spec.features)),
      refinenet1_(bind, spec.name + ".scratch.refinenet1", spec.features, true),
      refinenet2_(bind, spec.name + ".scratch.refinenet2", spec.features, true),
      refinenet3_(bind, spec.name + ".scratch.refinenet3", spec.features, true),
      refinenet4_(bind, spec.name + ".scratch.refinenet4", spec.features, false),
      output_conv1_(bind, spec.name + ".scratch.output_conv1", spec.features,
                    spec.outputs > 0 ? spec.features / 2 : spec.features, 3, 1, 1),
      output_conv2_(make_output_conv2(bind, spec)) {}

at::Tensor DptHead::project(size_t level, const at::Tensor& tokens) const {
  const Conv2d& project = projects_[level];
  const at::Tensor patches = norm_(tokens.narrow(1, special_tokens_, tokens.size(1) - special_tokens_));
  const at::Tensor operand = patches.to(project.weight.scalar_type());
  check_tf32_setting(operand, tf32_products_);
  return at::linear(operand, project.weight.flatten(1), project.bias);
}

at::Tensor DptHead::reassemble(size_t level, const at::Tensor& patches, int64_t height, int64_t width) const {
  const int64_t rows = height / patch_size_, columns = width / patch_size_;
  at::Tensor x = patches.view({patches.size(0), rows, columns, -1})
                     .permute({0, 3, 1, 2});  // [F,c,rows,columns], channels last
  if (spec_.position_embedding) {
    x = x.clone();  // the patches stay as they are
    add_position_embedding_(x, static_cast<double>(width) / static_cast<double>(height));
  }
  if (level == 0) x = up4_(x);
  if (level == 1) x = up2_(x);
  if (level == 3) x = down_(x);
  return layer_rn_[level](x.contiguous(at::MemoryFormat::ChannelsLast));  // [F,features,h,w]
}

at::Tensor DptHead::fuse(const std::array<at::Tensor, 4>& maps) const {
  at::Tensor x = refinenet4_(maps[3], {}, maps[2].size(2), maps[2].size(3));
  x = refinenet3_(x, maps[2], maps[1].size(2), maps[1].size(3));
  x = refinenet2_(x, maps[1], maps[0].size(2), maps[0].size(3));
  x = refinenet1_(x, maps[0], 2 * maps[0].size(2), 2 * maps[0].size(3));
  return output_conv1_(x);
}

at::Tensor DptHead::forward(const std::array<at::Tensor, 4>& patches, int64_t height, int64_t width) const {
  std::array<at::Tensor, 4> maps;
  for (size_t level = 0; level < 4; ++level) maps[level] = reassemble(level, patches[level], height, width);
  at::Tensor x = resize(fuse(maps), height / spec_.down_ratio, width / spec_.down_ratio);
  if (spec_.position_embedding)
    add_position_embedding_(x, static_cast<double>(width) / static_cast<double>(height));
  if (spec_.outputs == 0) return x;
  x = output_conv2_[0](x);
  return output_conv2_[1](at::relu_(x));
}

DenseOutput activate_depth(const at::Tensor& raw) {
  return {at::exp(raw.select(1, 0)), 1 + at::exp(raw.select(1, 1))};
}

DenseOutput activate_points(const at::Tensor& raw) {
  const at::Tensor xyz = raw.narrow(1, 0, 3).permute({0, 2, 3, 1});  // [F,H,W,3]
  return {at::sign(xyz) * at::expm1(at::abs(xyz)), 1 + at::exp(raw.select(1, 3))};
}

}  // namespace vggt
