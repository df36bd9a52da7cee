#pragma once
#include <array>
#include <vector>

#include "model/heads/dpt_head.h"
#include "model/heads/feature_pyramid.h"
#include "model/heads/track_sizes.h"
#include "model/heads/update_former.h"
#include "model/observer.h"

namespace vggt {

/// Follows query points of frame 0 through all frames (vggt/heads/track_head.py).
class TrackHead {
 public:
  static constexpr int kIterations = 4;

  struct Tracks {
    at::Tensor track;      // [S,Q,2] pixels
    at::Tensor vis, conf;  // [S,Q] in (0,1)
  };

  /// of_features: how the feature extractor computes; its maps enter the tracker in the binder's state type.
  TrackHead(Binder& bind, const Config& config, const ComputeKind& of_features);

  /// The smallest side of a frame that the correlation pyramid can halve often enough, pixels.
  static int64_t min_frame_side(const Config& config) { return int64_t{1} << config.track_corr_levels; }

  /// The head that makes feature maps.
  const DptHead& feature_extractor() const { return feature_extractor_; }
  /// What it projected of F frames from the four picked layers, and the frames' size in pixels ->
  /// [F,H/2,W/2,C] of its operand type.
  at::Tensor feature_maps(const std::array<at::Tensor, 4>& patches, int64_t height, int64_t width) const;
  /// For add_maps() to fill, chunk after chunk of frames.
  FeaturePyramid make_pyramid(int64_t frames, const TrackSizes& sizes) const;
  /// maps: feature_maps() of frames from `first` on.
  void add_maps(FeaturePyramid& pyramid, int64_t first, const at::Tensor& maps) const;

  /// query_points [Q,2] pixels of frame 0; pyramid: of all frames.
  Tracks forward(const FeaturePyramid& pyramid, const at::Tensor& query_points, const TrackSizes& sizes,
                 const Observer& observer) const;

 private:
  at::Tensor correlate(const FeaturePyramid& pyramid, const at::Tensor& features, const at::Tensor& coords,
                       const TrackSizes& sizes) const;
  void correlate_frames(const std::vector<at::Tensor>& pyramid, const at::Tensor& features,
                        const at::Tensor& coords, int64_t most_elements, at::Tensor& correlation) const;
  at::Tensor tokens(const at::Tensor& correlation, const at::Tensor& coords,
                    const at::Tensor& features) const;

  int64_t channels_, levels_;
  bool tf32_products_;
  DptHead feature_extractor_;
  Mlp corr_mlp_;
  at::Tensor query_ref_token_;  // [1,2,3C + 4]: frame 0, other frames
  UpdateFormer updateformer_;
  LayerNorm fmap_norm_, ffeat_norm_;
  Linear ffeat_updater_, vis_predictor_, conf_predictor_;
};

}  // namespace vggt
