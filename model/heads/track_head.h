#pragma once
#include <array>
#include <vector>

#include "model/heads/dpt_head.h"
#include "model/observer.h"

namespace vggt {

/// Attention of the tracker's transformer: separate queries and context, joint input projection
/// (torch.nn.MultiheadAttention's parameters), 8 heads.
struct TrackAttention {
  at::Tensor in_weight, in_bias;  // [3·hidden,hidden], [3·hidden]
  Linear out_proj;

  TrackAttention(Binder& bind, const std::string& name, int64_t hidden);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& context) const;  // [B,N,hidden], [B,M,hidden]
};

/// A block of the update transformer (vggt/heads/track_modules/modules.py). Its residual starts from
/// norm1(x).
struct TrackBlock {
  LayerNorm norm1, norm2;
  std::vector<LayerNorm> norm_context;  // one in cross-attention blocks
  TrackAttention attention;
  Mlp mlp;

  TrackBlock(Binder& bind, const std::string& name, int64_t hidden, bool cross);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& context = {}) const;
};

/// Alternates attention along time and, through virtual tracks, between points (track_modules/blocks.py).
class UpdateFormer {
 public:
  UpdateFormer(Binder& bind, const Config& config, int64_t input_dim);

  /// [Q,S,input_dim] -> [Q,S,2 + track_features]: change of the coordinates, change of the features.
  at::Tensor forward(const at::Tensor& input) const;

 private:
  LayerNorm input_norm_;
  Linear input_transform_;
  at::Tensor virtual_tracks_;  // [1,64,1,hidden]
  std::vector<TrackBlock> time_blocks_, virtual_blocks_, virtual_from_points_, points_from_virtual_;
  LayerNorm output_norm_;
  Linear flow_head_;
};

/// Follows query points of frame 0 through all frames (vggt/heads/track_head.py).
class TrackHead {
 public:
  static constexpr int kIterations = 4;

  struct Tracks {
    at::Tensor track;      // [S,Q,2] pixels
    at::Tensor vis, conf;  // [S,Q] in (0,1)
  };

  TrackHead(Binder& bind, const Config& config);

  /// The smallest side of a frame that the correlation pyramid can halve often enough, pixels.
  int64_t min_frame_side() const { return int64_t{1} << levels_; }

  const DptHead& feature_extractor() const { return feature_extractor_; }

  /// features: the extractor's maps of all frames [S,C,H/2,W/2]; query_points [Q,2] pixels of frame 0.
  Tracks forward(const at::Tensor& features, const at::Tensor& query_points, const Observer& observer) const;

 private:
  at::Tensor correlate(const std::vector<at::Tensor>& pyramid, const at::Tensor& features,
                       const at::Tensor& coords) const;
  at::Tensor tokens(const at::Tensor& correlation, const at::Tensor& coords,
                    const at::Tensor& features) const;

  int64_t channels_, levels_;
  DptHead feature_extractor_;
  Mlp corr_mlp_;
  at::Tensor query_ref_token_;  // [1,2,3C + 4]: frame 0, other frames
  UpdateFormer updateformer_;
  LayerNorm fmap_norm_, ffeat_norm_;
  Linear ffeat_updater_, vis_predictor_, conf_predictor_;
};

}  // namespace vggt
