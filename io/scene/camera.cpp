#include "io/scene/camera.h"

#include <Eigen/SVD>
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "io/scene/radial_distortion.h"

namespace vggt {
namespace {

constexpr std::array<std::string_view, 4> kModelNames = {"SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL",
                                                         "RADIAL"};

}  // namespace

std::string_view colmap_name(CameraModel model) {
  return kModelNames.at(static_cast<std::size_t>(model));
}

std::optional<CameraModel> camera_model_named(std::string_view name) {
  std::string upper;
  for (const char c : name)
    upper += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find(kModelNames, upper);
  if (found == kModelNames.end()) return std::nullopt;
  return static_cast<CameraModel>(found - kModelNames.begin());
}

Eigen::Vector3d Camera::center() const {
  return -(cam_from_world.linear().transpose() * cam_from_world.translation());
}

Eigen::Vector2d Camera::project(const Eigen::Vector3d& point_in_camera) const {
  const Eigen::Vector2d normal = point_in_camera.head<2>() / point_in_camera.z();
  const double r2 = normal.squaredNorm();
  return (k * (distortion_factor(distortion, r2) * normal).homogeneous()).head<2>();
}

Eigen::Vector3d Camera::ray(const Eigen::Vector2d& pixel) const {
  Eigen::Vector3d ray = k.triangularView<Eigen::Upper>().solve(pixel.homogeneous());
  if (!is_distorted()) return ray;
  const double shown = ray.head<2>().norm();
  if (shown == 0) return ray;
  const double r = undistorted_radius(distortion, shown);
  if (!std::isnan(r)) return {ray.x() * (r / shown), ray.y() * (r / shown), 1};
  return Eigen::Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
}

Eigen::Matrix3d Camera::k_original() const {
  Eigen::Matrix3d result = k;
  result.row(0) /= map.scale_x;
  result.row(1) /= map.scale_y;
  result(0, 2) = map.original_x(k(0, 2));
  result(1, 2) = map.original_y(k(1, 2));
  return result;
}

std::optional<double> Camera::fov_x_rad(bool undistorted) const {
  if (!has_intrinsics()) return std::nullopt;
  double half = width / (2 * k(0, 0));
  if (is_distorted() && !undistorted) {
    half = undistorted_radius(distortion, half);
    if (std::isnan(half)) return std::nullopt;
  }
  return 2 * std::atan(half);
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
