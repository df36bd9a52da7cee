#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/point_cloud.h"

namespace vggt {

/// Binary little-endian PLY: x y z float, red green blue uchar. Throws std::invalid_argument naming the path
/// if a point is not finite or if colours and points differ in number, std::system_error if the file cannot
/// be written.
void write_ply(const std::filesystem::path& path, const PointCloud& cloud);
/// The vertices of a PLY file, ASCII or binary; other properties and elements are passed over.
/// Throws std::invalid_argument naming the path: no PLY, no x y z, a point that is not finite, a file that
/// ends too early; std::system_error if it cannot be read.
std::vector<Eigen::Vector3d> read_ply_points(const std::filesystem::path& path);

}  // namespace vggt
