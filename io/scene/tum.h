#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// world_from_cam as lines "t x y z qx qy qz qw" (unit quaternion, qw >= 0; every digit of a double); cameras
/// that are not valid are left out. Throws std::invalid_argument naming the path if a valid one has no time
/// or a number that is not finite, std::system_error if the file cannot be written.
void write_tum(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras);
/// Cameras with times, without names and intrinsics. Blank lines and what follows a # are passed over,
/// quaternions are normalised. Throws std::invalid_argument naming path and line, std::system_error if the
/// file cannot be read.
std::vector<FrameCamera> read_tum(const std::filesystem::path& path);

}  // namespace vggt
