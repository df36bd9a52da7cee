#include "model/heads/track_head.h"

#include <algorithm>
#include <cmath>

namespace vggt {
namespace {

constexpr int64_t kStride = 2;  // of the feature maps
constexpr int64_t kRadius = 4;  // of the correlation window
constexpr int64_t kWindow = (2 * kRadius + 1) * (2 * kRadius + 1);
constexpr double kMaxScale = 518;                           // divides the flow
constexpr int64_t kCorrelationElements = int64_t{1} << 26;  // of one correlation volume: 256 MB in fp32

enum class Padding : int64_t { zeros = 0, border = 1 };

/// Bilinear samples of maps [B,C,h,w] at pixel coordinates (x, y) [B,n,m,2] -> [B,C,n,m].
at::Tensor sample(const at::Tensor& maps, const at::Tensor& coords, Padding padding) {
  const double scale_x = 2.0 / static_cast<double>(std::max<int64_t>(maps.size(3) - 1, 1));
  const double scale_y = 2.0 / static_cast<double>(std::max<int64_t>(maps.size(2) - 1, 1));
  const at::Tensor scale = at::tensor({scale_x, scale_y}, coords.options());
  return at::grid_sampler_2d(maps, coords * scale - 1, /*interpolation_mode=*/0,
                             static_cast<int64_t>(padding),
                             /*align_corners=*/true);
}

/// Samples one map [C,h,w] at points [Q,2] -> [Q,C].
at::Tensor sample_points(const at::Tensor& map, const at::Tensor& points) {
  return sample(map.unsqueeze(0), points.view({1, -1, 1, 2}), Padding::border).squeeze(0).squeeze(2).t();
}

/// Sine and cosine of the integer positions 0..n-1: [channels,n].
at::Tensor axis_embedding(int64_t n, int64_t channels, const at::TensorOptions& options) {
  const auto exact = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor exponents = at::arange(channels / 2, exact) / (channels / 2.0);
  const at::Tensor omega = at::reciprocal(at::pow(at::Scalar(10000.0), exponents));
  const at::Tensor angles = omega.unsqueeze(1) * at::arange(n, exact).unsqueeze(0);  // [channels/2,n]
  return at::cat({angles.sin(), angles.cos()}, 0).to(options);
}

/// Position embedding of a map of h × w pixels at points [Q,2] -> [Q,channels]: x half, then y half. The map
/// is constant along one axis in each half, so each half is sampled from one line of it.
at::Tensor position_embedding(const at::Tensor& points, int64_t channels, int64_t h, int64_t w) {
  const at::Tensor line_x =
      axis_embedding(w, channels / 2, points.options()).unsqueeze(1);  // [channels/2,1,w]
  const at::Tensor line_y =
      axis_embedding(h, channels / 2, points.options()).unsqueeze(2);  // [channels/2,h,1]
  const at::Tensor zero = at::zeros({points.size(0)}, points.options());
  return at::cat({sample_points(line_x, at::stack({points.select(1, 0), zero}, 1)),
                  sample_points(line_y, at::stack({zero, points.select(1, 1)}, 1))},
                 1);
}

/// Offsets of the correlation window (x, y): [9,9,2]. The outer index moves x, the inner y.
at::Tensor window(const at::TensorOptions& options) {
  const at::Tensor steps = at::arange(-kRadius, kRadius + 1, options);
  const auto grids = at::meshgrid({steps, steps}, "ij");
  return at::stack({grids[0], grids[1]}, 2);
}

/// Sine and cosine, interleaved, of the flow [Q,S,2]: [Q,S,2·channels], x block then y block.
at::Tensor flow_embedding(const at::Tensor& flow, int64_t channels) {
  const at::Tensor factors = at::arange(0, channels, 2, flow.options()) *
                             (1000.0 / static_cast<double>(channels));  // linear, as upstream
  const at::Tensor angles = flow.unsqueeze(3) * factors;                // [Q,S,2,channels/2]
  return at::stack({angles.sin(), angles.cos()}, 4).flatten(2);
}

}  // namespace

TrackHead::TrackHead(Binder& bind, const Config& config)
    : channels_(config.track_features),
      levels_(config.track_corr_levels),
      feature_extractor_(
          bind, config,
          {"track_head.feature_extractor", config.track_features, /*outputs=*/0, kStride, false}),
      corr_mlp_(bind, "track_head.tracker.corr_mlp", levels_ * kWindow, config.track_hidden, channels_),
      query_ref_token_(bind.state("track_head.tracker.query_ref_token", {1, 2, 3 * channels_ + 4})),
      updateformer_(bind, config, 3 * channels_ + 4),
      fmap_norm_(bind, "track_head.tracker.fmap_norm", channels_),
      ffeat_norm_(bind, "track_head.tracker.ffeat_norm", channels_),
      ffeat_updater_(bind, "track_head.tracker.ffeat_updater.0", channels_, channels_),
      vis_predictor_(bind, "track_head.tracker.vis_predictor.0", channels_, 1),
      conf_predictor_(bind, "track_head.tracker.conf_predictor.0", channels_, 1) {}

at::Tensor TrackHead::correlate(const std::vector<at::Tensor>& pyramid, const at::Tensor& features,
                                const at::Tensor& coords) const {
  const int64_t S = coords.size(0), Q = coords.size(1);
  const at::Tensor offsets = window(coords.options());
  at::Tensor correlation = at::empty({S, Q, levels_ * kWindow}, features.options());
  for (int64_t level = 0; level < levels_; ++level) {
    const at::Tensor& maps = pyramid[level];  // [S,C,h,w]
    const int64_t h = maps.size(2), w = maps.size(3);
    const int64_t chunk = std::max<int64_t>(1, kCorrelationElements / std::max<int64_t>(1, Q * h * w));
    for (int64_t first = 0; first < S; first += chunk) {
      const int64_t F = std::min(chunk, S - first);
      const at::Tensor volume =
          at::matmul(features.narrow(0, first, F), maps.narrow(0, first, F).flatten(2)) /
          std::sqrt(static_cast<double>(channels_));  // [F,Q,h·w]
      const at::Tensor centres =
          coords.narrow(0, first, F).reshape({F * Q, 1, 1, 2}) / std::ldexp(1.0, level);
      const at::Tensor sampled = sample(volume.view({F * Q, 1, h, w}), centres + offsets, Padding::zeros);
      correlation.narrow(0, first, F)
          .narrow(2, level * kWindow, kWindow)
          .copy_(sampled.view({F, Q, kWindow}));
    }
  }
  return correlation;
}

at::Tensor TrackHead::tokens(const at::Tensor& correlation, const at::Tensor& coords,
                             const at::Tensor& features) const {
  const int64_t S = coords.size(0);
  const at::Tensor flow = (coords - coords.narrow(0, 0, 1)).transpose(0, 1);  // [Q,S,2]
  const at::Tensor scaled = flow / kMaxScale;
  const at::Tensor parts = at::cat({flow_embedding(flow, channels_ / 2), scaled, scaled,
                                    corr_mlp_(correlation.transpose(0, 1)), features.transpose(0, 1)},
                                   2);  // [Q,S,3C + 4]
  at::Tensor reference = query_ref_token_.narrow(1, 0, 1);
  if (S > 1) reference = at::cat({reference, query_ref_token_.narrow(1, 1, 1).expand({1, S - 1, -1})}, 1);
  return parts + reference;
}

TrackHead::Tracks TrackHead::forward(const at::Tensor& features, const at::Tensor& query_points,
                                     const Observer& observer) const {
  const int64_t S = features.size(0), Q = query_points.size(0);
  std::vector<at::Tensor> pyramid = {
      fmap_norm_(features.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}).contiguous()};
  while (static_cast<int64_t>(pyramid.size()) < levels_) pyramid.push_back(at::avg_pool2d(pyramid.back(), 2));

  const at::Tensor query =
      query_points.to(pyramid[0].options()) / kStride;  // [Q,2] pixels of the feature maps
  const at::Tensor position =
      position_embedding(query, 3 * channels_ + 4, pyramid[0].size(2), pyramid[0].size(3));
  at::Tensor coords = query.unsqueeze(0).repeat({S, 1, 1});                                        // [S,Q,2]
  at::Tensor point_features = sample_points(pyramid[0][0], query).unsqueeze(0).repeat({S, 1, 1});  // [S,Q,C]
  for (int i = 0; i < kIterations; ++i) {
    report_progress(observer, "track_head", i, kIterations);
    const at::Tensor correlation = correlate(pyramid, point_features, coords);
    const at::Tensor input =
        tokens(correlation, coords, point_features) + position.unsqueeze(1);  // [Q,S,3C + 4]
    const at::Tensor delta = updateformer_.forward(input).transpose(0, 1);    // [S,Q,2 + C]
    const at::Tensor change = ffeat_updater_(ffeat_norm_(delta.narrow(2, 2, channels_)));
    point_features = point_features + at::gelu(change);
    coords = coords + delta.narrow(2, 0, 2);
    coords.select(0, 0).copy_(query);
    report_tensor(observer, "track_head", "track." + std::to_string(i), coords * kStride);
  }
  report_progress(observer, "track_head", kIterations, kIterations);
  return {coords * kStride, at::sigmoid(vis_predictor_(point_features)).view({S, Q}),
          at::sigmoid(conf_predictor_(point_features)).view({S, Q})};
}

}  // namespace vggt
