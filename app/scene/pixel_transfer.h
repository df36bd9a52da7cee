#pragma once
#include <Eigen/Geometry>
#include <Eigen/LU>
#include <algorithm>
#include <cstddef>

#include "io/scene/camera.h"

namespace vggt {

/// Where camera `to` sees what camera `from` sees at a pixel with a known depth.
class PixelTransfer {
 public:
  PixelTransfer(const Camera& from, const Camera& to)
      : from_(&from), to_(&to), distorted_(from.is_distorted() || to.is_distorted()) {
    relative_ = Eigen::Isometry3d(to.cam_from_world.matrix() * from.cam_from_world.matrix().inverse());
    turn_ = (to.k * relative_.linear() * from.k.inverse()).cast<float>();
    shift_ = (to.k * relative_.translation()).cast<float>();
  }

  /// (x·z, y·z, z), with the pixel (x, y) in the image of `to` and the depth z there. Where z is not positive
  /// the point is behind `to`. The cameras outlive this.
  Eigen::Vector3f operator()(float x, float y, float depth) const {
    if (distorted_) return through_lenses(x, y, depth);
    return depth * (turn_ * Eigen::Vector3f(x, y, 1)) + shift_;
  }

 private:
  Eigen::Vector3f through_lenses(float x, float y, float depth) const {
    const Eigen::Vector3d seen = relative_ * Eigen::Vector3d(static_cast<double>(depth) * from_->ray({x, y}));
    if (!(seen.z() > 0)) return {0, 0, -1};
    return (seen.z() * to_->project(seen).homogeneous()).cast<float>();
  }

  const Camera *from_, *to_;
  bool distorted_;
  Eigen::Isometry3d relative_;
  Eigen::Matrix3f turn_;
  Eigen::Vector3f shift_;
};

/// Bilinear interpolation at (x, y) in a map [height,width] of at least 2×2 pixels, in which (x, y) lies.
inline float interpolated(const float* map, int height, int width, float x, float y) {
  const int column = std::clamp(static_cast<int>(x), 0, width - 2),
            row = std::clamp(static_cast<int>(y), 0, height - 2);
  const float right = x - static_cast<float>(column), down = y - static_cast<float>(row);
  const float* upper = map + static_cast<std::ptrdiff_t>(row) * width + column;
  const float* lower = upper + width;
  return (1 - down) * ((1 - right) * upper[0] + right * upper[1]) +
         down * ((1 - right) * lower[0] + right * lower[1]);
}

}  // namespace vggt
