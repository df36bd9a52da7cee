#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/scene/point_cloud.h"

namespace vggt {

/// A line in world coordinates.
struct ColoredLine {
  Eigen::Vector3f from, to;
  Eigen::Matrix<uint8_t, 3, 1> rgb;
};

/// Writes a binary glTF 2.0 file: a mesh of the cloud's points and one of lines, such as the edges of camera
/// frusta. A node turns the world's axes (y down, z ahead) into glTF's (y up, z back). Throws
/// std::invalid_argument naming the path for what is beyond the format's 4 GiB, std::system_error if the file
/// cannot be written.
void write_glb(const std::filesystem::path& path, const PointCloud& cloud,
               const std::vector<ColoredLine>& lines);

}  // namespace vggt
