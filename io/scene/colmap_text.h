#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// COLMAP's images.txt, with or without its lines of observations, and the intrinsics of cameras.txt where
/// that lies beside it. Of cameras.txt only size and horizontal focal length are read: k holds that focal
/// length for both axes, and the image's middle as principal point. Throws std::invalid_argument naming path
/// and line, std::system_error if a file cannot be read.
std::vector<FrameCamera> read_colmap_images(const std::filesystem::path& path);

}  // namespace vggt
