#include "model/heads/dpt_head.h"

#include <cmath>
#include <utility>

#include "model/heads/axis_embedding.h"
#include "model/heads/head_constants.h"
#include "model/layers/linear.h"
#include "model/layers/row_passes.h"

namespace vggt {
namespace {

/// The embedding of n coordinates spread over ±span: [n,channels], fp64.
at::Tensor spread_embedding(int64_t n, double span, int64_t channels, const at::TensorOptions& options) {
  const double edge = span * static_cast<double>(n - 1) / static_cast<double>(n);
  const at::Tensor coordinates = at::linspace(-edge, edge, n, options);  // [n], rounded as upstream
  return axis_embedding(coordinates, channels, 100);
}

/// 0.1 · UV embedding of an h×w map of so many channels for frames of this aspect ratio (width/height).
PlaceTables place_tables(int64_t channels, int64_t h, int64_t w, double aspect,
                         const at::TensorOptions& options) {
  const double diagonal = std::sqrt(aspect * aspect + 1);
  const auto on_cpu = options.device(at::kCPU);
  const auto table = [&](int64_t n, double span) {  // [n,channels/2]
    const at::Tensor embedding = spread_embedding(n, span, channels / 2, on_cpu);
    return rounded_and_scaled(embedding, 0.1, c10::typeMetaToScalarType(options.dtype())).to(options);
  };
  return {table(w, aspect / diagonal), table(h, 1 / diagonal)};
}

/// Checkpoints hold these layers as convolutions of one pixel.
std::vector<Linear> make_projects(Binder& bind, const Config& config, const std::string& name) {
  std::vector<Linear> projects;
  for (size_t i = 0; i < 4; ++i) {
    const std::string project = name + ".projects." + std::to_string(i);
    const int64_t in = 2 * config.embed_dim, out = config.dpt_out_channels[i];
    at::Tensor weight = bind.operand(project + ".weight", {out, in, 1, 1});
    if (weight.defined()) weight = weight.flatten(1);
    projects.emplace_back(weight, bind.operand(project + ".bias", {out}), bind.kind());
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

}  // namespace

DptHead::Output::Output(Binder& bind, const DptSpec& spec)
    : conv(bind, spec.name + ".scratch.output_conv2.0", spec.features / 2, kDptLastChannels, 3, 1, 1),
      weight(
          bind.state(spec.name + ".scratch.output_conv2.2.weight", {spec.outputs, kDptLastChannels, 1, 1})),
      offset(bind.state(spec.name + ".scratch.output_conv2.2.bias", {spec.outputs})) {}

DptHead::ResidualUnit::ResidualUnit(Binder& bind, const std::string& name, int64_t features)
    : conv1(bind, name + ".conv1", features, features, 3, 1, 1),
      conv2(bind, name + ".conv2", features, features, 3, 1, 1) {}

at::Tensor DptHead::ResidualUnit::operator()(const at::Tensor& x, const MapTerms& after) const {
  auto [hidden, bias1] = conv1.before_bias(x);
  add_to_map_(hidden, {.bias = bias1, .relu = true});
  auto [y, bias2] = conv2.before_bias(hidden);
  add_to_map_(y, {bias2, x, after.first, after.relu});
  return y;
}

DptHead::FusionBlock::FusionBlock(Binder& bind, const std::string& name, int64_t features, bool has_skip)
    : unit(bind, name + ".resConfUnit2", features),
      out_conv(bind, name + ".out_conv", features, features, 1) {
  if (has_skip) skip_unit.emplace_back(bind, name + ".resConfUnit1", features);
}

at::Tensor DptHead::FusionBlock::operator()(at::Tensor x, at::Tensor skip, int64_t rows,
                                            int64_t columns) const {
  // Upstream's units begin with a ReLU in place, so that what they add is relu(x).
  if (skip_unit.empty()) {
    add_to_map_(x, {.relu = true});
  } else {
    add_to_map_(skip, {.relu = true});
    x = skip_unit[0](skip, {.first = x, .relu = true});
    skip.reset();
  }
  x = unit(x);
  // A 1×1 convolution and a bilinear resize commute; in this order the convolution has a quarter of the
  // pixels.
  const auto [map, bias] = out_conv.before_bias(x);
  x.reset();
  return resize_map(map, rows, columns, bias);
}

DptHead::DptHead(Binder& bind, const Config& config, const DptSpec& spec)
    : spec_(spec),
      patch_size_(config.patch_size),
      special_tokens_(config.special_tokens()),
      norm_(bind, spec.name + ".norm", 2 * config.embed_dim),
      options_(at::TensorOptions().device(bind.device()).dtype(bind.kind().state)),
      operand_type_(bind.kind().operand),
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
                    spec.outputs > 0 ? spec.features / 2 : spec.features, 3, 1, 1) {
  if (spec.outputs > 0) output_conv2_.emplace_back(bind, spec);
}

at::Tensor DptHead::project(size_t level, const at::Tensor& tokens) const {
  const at::Tensor rows = tokens.contiguous().view({-1, tokens.size(2)});            // [F·P,2C]
  at::Tensor normed = at::empty(rows.sizes(), rows.options().dtype(operand_type_));  // [F·P,2C]
  norm_rows(normed, rows, norm_);
  // Of a frame's few special tokens too: without them the rows would have to be copied.
  return projects_[level](normed.view(tokens.sizes()))
      .narrow(1, special_tokens_, tokens.size(1) - special_tokens_);
}

DptPlaces DptHead::places(int64_t height, int64_t width) const {
  DptPlaces places;
  if (!spec_.position_embedding) return places;
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  for (size_t level = 0; level < 4; ++level)
    places.levels[level] =
        place_tables(channels(level), height / patch_size_, width / patch_size_, aspect, options_);
  const int64_t narrow = spec_.outputs > 0 ? spec_.features / 2 : spec_.features;
  places.output = place_tables(narrow, height / spec_.down_ratio, width / spec_.down_ratio, aspect, options_);
  return places;
}

at::Tensor DptHead::reassemble(size_t level, const at::Tensor& patches, int64_t height, int64_t width,
                               const PlaceTables& places) const {
  const int64_t rows = height / patch_size_, columns = width / patch_size_;
  at::Tensor x = patches.view({patches.size(0), rows, columns, -1})
                     .permute({0, 3, 1, 2});  // [F,c,rows,columns], channels last
  if (places.along_x.defined()) x = resize_map(x, rows, columns, {}, places);  // the patches stay as they are
  if (level == 0) x = up4_(x);
  if (level == 1) x = up2_(x);
  if (level == 3) x = down_(x);
  return layer_rn_[level](x.contiguous(at::MemoryFormat::ChannelsLast));  // [F,features,h,w]
}

Conv2d::Unbiased DptHead::fuse(std::array<at::Tensor, 4> maps) const {
  const auto rows = [&](size_t level) { return maps[level].size(2); };
  const auto columns = [&](size_t level) { return maps[level].size(3); };
  const int64_t most_rows = 2 * rows(0), most_columns = 2 * columns(0);
  // Each map goes when it has been added.
  at::Tensor x = refinenet4_(std::move(maps[3]), {}, rows(2), columns(2));
  x = refinenet3_(std::move(x), std::move(maps[2]), rows(1), columns(1));
  x = refinenet2_(std::move(x), std::move(maps[1]), rows(0), columns(0));
  x = refinenet1_(std::move(x), std::move(maps[0]), most_rows, most_columns);
  return output_conv1_.before_bias(x);
}

at::Tensor DptHead::forward(const std::array<at::Tensor, 4>& patches, int64_t height, int64_t width,
                            const DptPlaces& places) const {
  std::array<at::Tensor, 4> maps;
  for (size_t level = 0; level < 4; ++level)
    maps[level] = reassemble(level, patches[level], height, width, places.levels[level]);
  at::Tensor x;
  {
    const auto [fused, bias] = fuse(std::move(maps));
    x = resize_map(fused, height / spec_.down_ratio, width / spec_.down_ratio, bias, places.output);
  }
  if (spec_.outputs == 0) return x;
  const Output& output = output_conv2_[0];
  auto [last, last_bias] = output.conv.before_bias(x);
  return finish_map_(last, last_bias, output.weight, output.offset);
}

DenseOutput activate_depth(const at::Tensor& raw) {
  return {at::exp(raw.select(1, 0)), 1 + at::exp(raw.select(1, 1))};
}

DenseOutput activate_points(const at::Tensor& raw) {
  const at::Tensor xyz = raw.narrow(1, 0, 3).permute({0, 2, 3, 1});  // [F,H,W,3]
  return {at::sign(xyz) * at::expm1(at::abs(xyz)), 1 + at::exp(raw.select(1, 3))};
}

}  // namespace vggt
