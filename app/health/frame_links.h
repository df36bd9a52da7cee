#pragma once
#include <vector>

#include "app/health/small_frames.h"
#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

/// How well two frames fit together where the cameras and the depth say that they see the same.
struct FrameLink {
  int a = 0, b = 0;  // a < b
  /// The share of one frame whose depth the other confirms roughly, times the correlation of the images
  /// there; of the better direction. About 0 for frames of different places, however they came to lie.
  double strength = 0;
  int tracks = 0;        // that both show
  double angle_rad = 0;  // between the two views, typical of what both see
};

/// What the frames that may see the same say of one of them.
struct FrameSupport {
  double overlap = 0, agreement = 0;  // as FrameHealth has them
};

struct LinkedFrames {
  std::vector<FrameLink> links;       // of the pairs that may see the same
  std::vector<FrameSupport> support;  // of each frame; none without depth
};

/// Looks at the pairs of frames that see most of the same by a few samples, and at neighbours in the
/// sequence. Frames whose camera is not valid have no links. Throws what work.check_stop throws.
LinkedFrames link_frames(const SmallFrames& small, const std::vector<Camera>& cameras,
                         const std::vector<Track>& tracks, const FrameWork& work);

/// Which part each frame belongs to, where links that are strong enough connect the frames of a part: 0 for
/// the largest part, and so on; -1 for frames whose camera is not valid.
std::vector<int> connected_parts(const std::vector<FrameLink>& links, const std::vector<Camera>& cameras);

}  // namespace vggt
