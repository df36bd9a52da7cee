#pragma once
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"
#include "io/scene/tracks.h"

namespace vggt {

/// A scene as other programs read it.
struct ExportedScene {
  /// Valid cameras, in pixels of the images that they name.
  std::vector<FrameCamera> images;
  /// Points with their observations: `frame` is an index into images, pixels are the image's.
  std::vector<Track> tracks;
  /// Points that no observations are known of; a part of the cloud.
  PointCloud points;
};

}  // namespace vggt
