#pragma once
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// The cameras that the network's arrays stand for: pose_enc [S,9], extrinsic [S,3,4], intrinsic [S,3,3],
/// with S = frames, of images of width × height network pixels. A camera without a finite pose and fields
/// of view between 0 and pi is not valid; its pose and k are identities. The caller fills in map and original
/// size.
std::vector<Camera> cameras_from(const float* pose_enc, const float* extrinsic, const float* intrinsic,
                                 int frames, int width, int height);

/// The inverse of cameras_from(): writes cameras into such arrays. Where a camera is not valid, the arrays
/// keep what they hold.
void store_cameras(const std::vector<Camera>& cameras, float* pose_enc, float* extrinsic, float* intrinsic);

}  // namespace vggt
