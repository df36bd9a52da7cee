#pragma once
#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <cstddef>

#include "io/scene/camera.h"

namespace vggt {

/// Where camera `to` sees what camera `from` sees at a pixel with a known depth.
class PixelTransfer {
 public:
  PixelTransfer(const Camera& from, const Camera& to) {
    const Eigen::Isometry3d relative(to.cam_from_world.matrix() * from.cam_from_world.matrix().inverse());
    turn_ = (to.k * relative.linear() * from.k.inverse()).cast<float>();
    shift_ = (to.k * relative.translation()).cast<float>();
  }

  /// (x·z, y·z, z), with the pixel (x, y) in the image of `to` and the depth z there. Where z is not positive
  /// the point is behind `to`.
  Eigen::Vector3f operator()(float x, float y, float depth) const {
    return depth * (turn_ * Eigen::Vector3f(x, y, 1)) + shift_;
  }

 private:
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
