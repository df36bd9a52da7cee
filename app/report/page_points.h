#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/scene/point_cloud.h"

namespace vggt {

/// Points as the page's script reads them: [N,3] 16-bit places in a box, then [N,3] colours.
struct PackedPoints {
  Eigen::Vector3f low = Eigen::Vector3f::Zero(), side = Eigen::Vector3f::Ones();  // of the box
  int64_t count = 0;
  std::vector<uint8_t> bytes;
};

/// At most `most` of the points, one in each cube of a size that leaves nearly as many: near and far surfaces
/// are covered alike.
PointCloud thinned_evenly(const PointCloud& cloud, std::size_t most);

/// The points that lie in or near the box of most of them: a few that lie far off would make all others
/// coarse.
PackedPoints packed_points(const PointCloud& cloud);

}  // namespace vggt
