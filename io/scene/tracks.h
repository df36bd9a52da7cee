#pragma once
#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <vector>

namespace vggt {

/// Where a frame shows a point.
struct Observation {
  int frame = 0;
  Eigen::Vector2d pixel = Eigen::Vector2d::Zero();  // of the upright original, pixel centres at integers
};

/// A point that was found in several frames, at most once in each.
struct Track {
  Eigen::Vector3d point_in_world = Eigen::Vector3d::Zero();
  std::array<uint8_t, 3> rgb{};
  double error_px = 0;  // mean distance of the observations from where the cameras show the point
  std::vector<Observation> observations;  // ordered by frame
};

}  // namespace vggt
