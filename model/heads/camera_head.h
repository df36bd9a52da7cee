#pragma once
#include <vector>

#include "model/config.h"
#include "model/layers/block.h"
#include "model/observer.h"

namespace vggt {

/// Refines the pose encoding of every frame in four iterations (vggt/heads/camera_head.py).
class CameraHead {
 public:
  CameraHead(Binder& bind, const Config& config, const AttentionOptions& attention);

  /// tokens: the camera tokens of the last layer [S,2C] -> pose encoding [S,9]: T, quaternion xyzw, field of
  /// view (h, w).
  at::Tensor forward(const at::Tensor& tokens, const Observer& observer) const;

 private:
  int64_t dim_;
  LayerNorm token_norm_, trunk_norm_;
  at::Tensor empty_pose_tokens_;  // [1,1,9]
  Linear embed_pose_, modulation_;
  std::vector<Block> trunk_;
  Mlp pose_branch_;
};

/// Camera matrices of pose encodings: pose_enc [S,9] and the network's image size in pixels ->
/// extrinsic [S,3,4] (camera from world, OpenCV axes), intrinsic [S,3,3].
struct CameraMatrices {
  at::Tensor extrinsic, intrinsic;
};
CameraMatrices camera_matrices(const at::Tensor& pose_enc, int64_t height, int64_t width);

}  // namespace vggt
