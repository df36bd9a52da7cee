#include "io/scene/camera.h"

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <stdexcept>

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

void set_simple_intrinsics(Camera& camera, double width, double height, double focal) {
  constexpr double kMost = 1 << 30;
  const bool positive = width > 0 && focal > 0 && std::isfinite(focal) && height >= 0;
  if (!positive) throw std::invalid_argument("a camera's width and focal length must be positive");
  if (width != std::floor(width) || height != std::floor(height) || std::max(width, height) > kMost)
    throw std::invalid_argument("a camera's size must be whole numbers of pixels");
  camera.width = static_cast<int>(width);
  camera.height = static_cast<int>(height);
  camera.k << focal, 0, (width - 1) / 2, 0, focal, height > 0 ? (height - 1) / 2 : 0, 0, 0, 1;
}

Eigen::Isometry3d nearest_pose(const Eigen::Matrix4d& matrix) {
  const Eigen::Isometry3d given(matrix);
  const Eigen::Matrix3d turn = given.linear();
  if (!turn.allFinite() || !given.translation().allFinite())
    throw std::invalid_argument("a pose is not finite");
  const double off = (turn.transpose() * turn - Eigen::Matrix3d::Identity()).cwiseAbs().maxCoeff();
  if (!(off < 0.01) || turn.determinant() < 0)
    throw std::invalid_argument("a pose is no rotation and translation");
  const Eigen::JacobiSVD<Eigen::Matrix3d> svd(turn, Eigen::ComputeFullU | Eigen::ComputeFullV);
  Eigen::Isometry3d pose = Eigen::Isometry3d::Identity();
  pose.linear() = svd.matrixU() * svd.matrixV().transpose();
  pose.translation() = given.translation();
  return pose;
}

}  // namespace vggt
