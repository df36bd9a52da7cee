#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// The camera head's poses, each averaged with the pose that fits the frame's own points: the one under which
/// what the point head says of its pixels is seen at these pixels. Two estimates whose errors differ.
///
/// pose_enc [F,9] (its fields of view are taken as they are), points [F,H,W,3] and confidence [F,H,W] of the
/// same frames, all on the CPU in one floating type -> [F,9], quaternions of length 1. A frame whose points
/// fit no camera near the head's keeps the head's numbers.
at::Tensor refine_poses(const at::Tensor& pose_enc, const at::Tensor& points, const at::Tensor& confidence);

}  // namespace vggt
