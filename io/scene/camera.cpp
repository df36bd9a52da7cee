#include "io/scene/camera.h"

#include <cmath>

namespace vggt {

Eigen::Vector3d Camera::center() const {
  return -(cam_from_world.linear().transpose() * cam_from_world.translation());
}

Eigen::Matrix3d Camera::k_original() const {
  Eigen::Matrix3d result = k;
  result.row(0) /= map.scale_x;
  result.row(1) /= map.scale_y;
  result(0, 2) = map.original_x(k(0, 2));
  result(1, 2) = map.original_y(k(1, 2));
  return result;
}

std::optional<double> Camera::fov_x_rad() const {
  if (!has_intrinsics()) return std::nullopt;
  return 2 * std::atan(width / (2 * k(0, 0)));
}

}  // namespace vggt
