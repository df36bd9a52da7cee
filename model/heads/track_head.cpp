#include "model/heads/track_head.h"

#include <algorithm>
#include <cmath>

#include "model/heads/axis_embedding.h"
#include "model/heads/head_constants.h"

namespace vggt {
namespace {

constexpr double kMaxScale = 518;  // divides the flow

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

/// The embedding of the integer positions 0..n-1: [channels,n].
at::Tensor line_embedding(int64_t n, int64_t channels, const at::TensorOptions& options) {
  const at::Tensor positions = at::arange(n, at::TensorOptions().dtype(at::kDouble));
  return axis_embedding(positions, channels, 10000).t().contiguous().to(options);
}

/// Position embedding of a map of h × w pixels at points [Q,2] -> [Q,channels]: x half, then y half. The map
/// is constant along one axis in each half, so each half is sampled from one line of it.
at::Tensor position_embedding(const at::Tensor& points, int64_t channels, int64_t h, int64_t w) {
  const at::Tensor line_x =
      line_embedding(w, channels / 2, points.options()).unsqueeze(1);  // [channels/2,1,w]
  const at::Tensor line_y =
      line_embedding(h, channels / 2, points.options()).unsqueeze(2);  // [channels/2,h,1]
  const at::Tensor zero = at::zeros({points.size(0)}, points.options());
  return at::cat({sample_points(line_x, at::stack({points.select(1, 0), zero}, 1)),
                  sample_points(line_y, at::stack({zero, points.select(1, 1)}, 1))},
                 1);
}

/// Offsets of the correlation window (x, y): [9,9,2]. The outer index moves x, the inner y.
at::Tensor window(const at::TensorOptions& options) {
  const at::Tensor steps = at::arange(-kCorrelationRadius, kCorrelationRadius + 1, options);
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

DptHead make_feature_extractor(Binder& bind, const Config& config, const ComputeKind& kind) {
  const ComputeKind of_tracker = bind.kind();
  bind.set_kind(kind);
  DptHead head(bind, config,
               {"track_head.feature_extractor", config.track_features, /*outputs=*/0, kTrackStride, false});
  bind.set_kind(of_tracker);
  return head;
}

}  // namespace

TrackHead::TrackHead(Binder& bind, const Config& config, const ComputeKind& of_features)
    : channels_(config.track_features),
      levels_(config.track_corr_levels),
      tf32_products_(bind.kind().tf32_products),
      feature_extractor_(make_feature_extractor(bind, config, of_features)),
      corr_mlp_(bind, "track_head.tracker.corr_mlp", levels_ * kCorrelationWindow, config.track_hidden,
                channels_),
      query_ref_token_(bind.state("track_head.tracker.query_ref_token", {1, 2, 3 * channels_ + 4})),
      updateformer_(bind, config, 3 * channels_ + 4),
      fmap_norm_(bind, "track_head.tracker.fmap_norm", channels_),
      ffeat_norm_(bind, "track_head.tracker.ffeat_norm", channels_),
      ffeat_updater_(bind, "track_head.tracker.ffeat_updater.0", channels_, channels_),
      vis_predictor_(bind, "track_head.tracker.vis_predictor.0", channels_, 1),
      conf_predictor_(bind, "track_head.tracker.conf_predictor.0", channels_, 1) {}

at::Tensor TrackHead::feature_maps(const std::array<at::Tensor, 4>& patches, int64_t height,
                                   int64_t width) const {
  return feature_extractor_.forward(patches, height, width, {}).permute({0, 2, 3, 1}).contiguous();
}

FeaturePyramid TrackHead::make_pyramid(int64_t frames, const TrackSizes& sizes) const {
  return {frames, levels_, sizes.device_bytes};
}

void TrackHead::add_maps(FeaturePyramid& pyramid, int64_t first, const at::Tensor& maps) const {
  pyramid.put(first, fmap_norm_(maps));
}

void TrackHead::correlate_frames(const std::vector<at::Tensor>& pyramid, const at::Tensor& features,
                                 const at::Tensor& coords, int64_t most_elements,
                                 at::Tensor& correlation) const {
  const int64_t S = coords.size(0), Q = coords.size(1);
  const at::Tensor offsets = window(coords.options());
  for (int64_t level = 0; level < levels_; ++level) {
    const at::Tensor& maps = pyramid[level];  // [S,C,h,w]
    const int64_t h = maps.size(2), w = maps.size(3);
    const int64_t chunk = std::max<int64_t>(1, most_elements / std::max<int64_t>(1, Q * h * w));
    for (int64_t first = 0; first < S; first += chunk) {
      const int64_t F = std::min(chunk, S - first);
      const at::Tensor volume =
          at::matmul(features.narrow(0, first, F), maps.narrow(0, first, F).flatten(2)) /
          std::sqrt(static_cast<double>(channels_));  // [F,Q,h·w]
      const at::Tensor centres =
          coords.narrow(0, first, F).reshape({F * Q, 1, 1, 2}) / std::ldexp(1.0, level);
      const at::Tensor sampled = sample(volume.view({F * Q, 1, h, w}), centres + offsets, Padding::zeros);
      correlation.narrow(0, first, F)
          .narrow(2, level * kCorrelationWindow, kCorrelationWindow)
          .copy_(sampled.view({F, Q, kCorrelationWindow}));
    }
  }
}

at::Tensor TrackHead::correlate(const FeaturePyramid& pyramid, const at::Tensor& features,
                                const at::Tensor& coords, const TrackSizes& sizes) const {
  const int64_t S = coords.size(0), Q = coords.size(1), on_device = pyramid.device_frames();
  check_tf32_setting(features, tf32_products_);
  at::Tensor correlation = at::empty({S, Q, levels_ * kCorrelationWindow}, features.options());
  for (int64_t first = 0, count = 0; first < S; first += count) {
    count = first < on_device ? on_device : std::min(std::max<int64_t>(1, sizes.host_frames), S - first);
    at::Tensor part = correlation.narrow(0, first, count);  // [count,Q,levels·81]
    correlate_frames(pyramid.get(first, count), features.narrow(0, first, count),
                     coords.narrow(0, first, count), sizes.correlation_elements, part);
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

TrackHead::Tracks TrackHead::forward(const FeaturePyramid& pyramid, const at::Tensor& query_points,
                                     const TrackSizes& sizes, const Observer& observer) const {
  const int64_t S = pyramid.frames(), Q = query_points.size(0);
  const at::Tensor map = pyramid.get(0, 1)[0][0];                          // [C,h,w] of frame 0
  const at::Tensor query = query_points.to(map.options()) / kTrackStride;  // [Q,2] pixels of the feature maps
  const at::Tensor position = position_embedding(query, 3 * channels_ + 4, map.size(1), map.size(2));
  at::Tensor coords = query.unsqueeze(0).repeat({S, 1, 1});                              // [S,Q,2]
  at::Tensor point_features = sample_points(map, query).unsqueeze(0).repeat({S, 1, 1});  // [S,Q,C]
  for (int i = 0; i < kIterations; ++i) {
    report_progress(observer, "track_head", i, kIterations);
    const at::Tensor correlation = correlate(pyramid, point_features, coords, sizes);
    const at::Tensor input =
        tokens(correlation, coords, point_features) + position.unsqueeze(1);  // [Q,S,3C + 4]
    const at::Tensor delta = updateformer_.forward(input).transpose(0, 1);    // [S,Q,2 + C]
    const at::Tensor change = ffeat_updater_(ffeat_norm_(delta.narrow(2, 2, channels_)));
    point_features = point_features + at::gelu(change);
    coords = coords + delta.narrow(2, 0, 2);
    coords.select(0, 0).copy_(query);
    report_tensor(observer, "track_head", "track." + std::to_string(i), coords * kTrackStride);
  }
  report_progress(observer, "track_head", kIterations, kIterations);
  return {coords * kTrackStride, at::sigmoid(vis_predictor_(point_features)).view({S, Q}),
          at::sigmoid(conf_predictor_(point_features)).view({S, Q})};
}

}  // namespace vggt
