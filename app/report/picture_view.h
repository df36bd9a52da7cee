#pragma once
#include <Eigen/Geometry>
#include <array>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// A camera as it is drawn: where it stands, and the corners of its image some way in front of it, from the
/// upper left one clockwise. World coordinates.
struct Frustum {
  Eigen::Vector3d centre;
  std::array<Eigen::Vector3d, 4> corners;
};

/// Frustums of the valid cameras, of a size that suits the scene.
std::vector<Frustum> frustums_of(const std::vector<Camera>& cameras,
                                 const std::vector<Eigen::Vector3f>& points);

/// From where a picture is taken.
struct PictureView {
  Eigen::Isometry3d view_from_world = Eigen::Isometry3d::Identity();  // OpenCV axes
  double focal = 0;              // pixels; the principal point is the middle of the picture
  Eigen::Vector3d up{0, -1, 0};  // of the world, as the cameras tell it
  double nearest = 0;            // what is nearer along z is not drawn: it would hide the rest
};

/// A view from behind and above the cameras that shows all of them and the points, but for a few percent at
/// every border. Without cameras, from behind the world's origin along z, with y down.
PictureView picture_view(const std::vector<Eigen::Vector3f>& points, const std::vector<Frustum>& frustums,
                         int width, int height);

}  // namespace vggt
