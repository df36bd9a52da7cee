#pragma once
#include <string>
#include <vector>

#include "model/config.h"
#include "model/layers/layer_norm.h"
#include "model/layers/mlp.h"

namespace vggt {

/// Attention of the tracker's transformer, 8 heads: of x to a context. One tensor of the checkpoint holds all
/// input projections (torch.nn.MultiheadAttention).
struct TrackAttention {
  Linear q_proj, kv_proj, out_proj;  // hidden -> hidden, 2·hidden, hidden

  TrackAttention(Binder& bind, const std::string& name, int64_t hidden);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& context) const;  // [B,N,hidden], [B,M,hidden]

 private:
  struct InProj {
    at::Tensor weight, bias;  // [3·hidden,hidden], [3·hidden]
  };
  TrackAttention(Binder& bind, const std::string& name, int64_t hidden, const InProj& in_proj);
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

}  // namespace vggt
