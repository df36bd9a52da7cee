#pragma once
#include <Eigen/Core>
#include <Eigen/LU>

#include "app/scene_builder.h"

namespace vggt {

/// Where one camera sees what another one sees at a pixel, at a given depth.
class PixelTransfer {
 public:
  PixelTransfer(const View& from, const View& to) {
    const Eigen::Matrix4d relative = to.cam_from_world * from.cam_from_world.inverse();
    turn_ = (to.k * relative.topLeftCorner<3, 3>() * from.k.inverse()).cast<float>();
    shift_ = (to.k * relative.topRightCorner<3, 1>()).cast<float>();
  }

  /// (x·z, y·z, z) with the pixel x, y in the other image and the depth z there, which may be behind it.
  Eigen::Vector3f operator()(float x, float y, float depth) const {
    return depth * (turn_ * Eigen::Vector3f(x, y, 1)) + shift_;
  }

 private:
  Eigen::Matrix3f turn_;
  Eigen::Vector3f shift_;
};

}  // namespace vggt
