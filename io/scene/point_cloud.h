#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vggt {

/// A cloud of coloured points in world coordinates (the first camera is the world).
struct PointCloud {
  std::vector<Eigen::Vector3f> points;
  std::vector<Eigen::Matrix<uint8_t, 3, 1>> colors;  // rgb
  std::vector<Eigen::Vector3f> normals = {};         // of length 1; empty: none are known

  /// Adds a point of another cloud with all that is known of it.
  void add(const PointCloud& other, std::size_t i) {
    points.push_back(other.points[i]);
    colors.push_back(other.colors[i]);
    if (!other.normals.empty()) normals.push_back(other.normals[i]);
  }
};

}  // namespace vggt
