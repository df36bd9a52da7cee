#include "io/scene/image_view.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace vggt {
namespace {

/// The pixel of an image of this width that shows, after a quarter turn counterclockwise, at (y, width-1-x).
Eigen::Vector2d turned(const Eigen::Vector2d& pixel, int width) {
  return {pixel.y(), width - 1 - pixel.x()};
}

/// The camera of the image turned counterclockwise by a quarter.
Camera turned(const Camera& camera) {
  Camera result = camera;
  std::swap(result.width, result.height);
  std::swap(result.original_width, result.original_height);
  result.k(0, 0) = camera.k(1, 1);
  result.k(1, 1) = camera.k(0, 0);
  if (camera.has_intrinsics())
    result.k.col(2).head<2>() = turned(Eigen::Vector2d(camera.k.col(2).head<2>()), camera.width);
  const Eigen::Matrix3d turn{{0, 1, 0}, {-1, 0, 0}, {0, 0, 1}};
  result.cam_from_world.linear() = turn * camera.cam_from_world.linear();
  result.cam_from_world.translation() = turn * camera.cam_from_world.translation();
  return result;
}

/// r² from which on r·(1 + k1·r² + k2·r⁴) no longer grows.
double fold(const Eigen::Vector2d& distortion) {
  const double a = 5 * distortion[1], b = 3 * distortion[0];
  double first = std::numeric_limits<double>::infinity();
  const auto take = [&](double r2) {
    if (r2 > 0 && r2 < first) first = r2;
  };
  if (a == 0) {
    if (b != 0) take(-1 / b);
    return first;
  }
  const double discriminant = b * b - 4 * a;
  if (discriminant < 0) return first;
  take((-b - std::sqrt(discriminant)) / (2 * a));
  take((-b + std::sqrt(discriminant)) / (2 * a));
  return first;
}

}  // namespace

Camera original_camera(const Camera& camera) {
  Camera result = camera;
  result.k = camera.k_original();
  result.width = camera.original_width;
  result.height = camera.original_height;
  result.map = {};
  return result;
}

Camera turned_clockwise(Camera camera, int quarter_turns) {
  for (int i = quarter_turns; i % 4 != 0; ++i) camera = turned(camera);
  return camera;
}

ViewedImage::ViewedImage(const Camera& camera, const ImageView& view)
    : original_(original_camera(camera)),
      exported_(original_),
      quarter_turns_(view.quarter_turns),
      undistorted_(view.undistorted && camera.is_distorted()),
      most_r2_(fold(camera.distortion)) {
  if (original_.width < 1 || original_.height < 1)
    throw std::logic_error("ViewedImage: the original's size is not known");
  for (int i = 0; i < quarter_turns_; ++i) exported_ = turned(exported_);
  if (!view.undistorted) return;
  exported_.distortion.setZero();
  const bool square = camera.model != CameraModel::pinhole;
  exported_.model = square ? CameraModel::simple_pinhole : CameraModel::pinhole;
}

Eigen::Vector2d ViewedImage::from_original(const Eigen::Vector2d& pixel) const {
  Eigen::Vector2d result = pixel;
  if (undistorted_) result = (original_.k * original_.ray(pixel)).head<2>();
  int width = original_.width, height = original_.height;
  for (int i = 0; i < quarter_turns_; ++i) {
    result = turned(result, width);
    std::swap(width, height);
  }
  return result;
}

Eigen::Vector2d ViewedImage::to_original(const Eigen::Vector2d& pixel) const {
  Eigen::Vector2d result = pixel;
  int width = exported_.width, height = exported_.height;
  for (int i = quarter_turns_; i % 4 != 0; ++i) {
    result = turned(result, width);
    std::swap(width, height);
  }
  if (!undistorted_) return result;
  const Eigen::Vector3d ray = original_.k.triangularView<Eigen::Upper>().solve(result.homogeneous());
  if (ray.head<2>().squaredNorm() >= most_r2_)
    return Eigen::Vector2d::Constant(std::numeric_limits<double>::quiet_NaN());
  return original_.project(ray);
}

}  // namespace vggt
