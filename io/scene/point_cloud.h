#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace vggt {

/// A cloud of coloured points in world coordinates (the first camera is the world).
struct PointCloud {
  std::vector<Eigen::Vector3f> points;
  std::vector<Eigen::Matrix<uint8_t, 3, 1>> colors;  // rgb
  std::vector<Eigen::Vector3f> normals = {};         // of length 1; empty: none are known
};

}  // namespace vggt
