#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// KITTI's trajectory: a line for each valid camera with the upper three rows of world_from_cam, row after
/// row; every digit of a double. It holds no times. Throws std::system_error if the file cannot be written.
void write_kitti(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras);

}  // namespace vggt
