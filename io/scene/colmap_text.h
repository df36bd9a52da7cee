#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// COLMAP's images.txt, with or without its lines of observations, and the intrinsics of cameras.txt where
/// that lies beside it: of these only size and (horizontal) focal length are read, k holds it for both axes,
/// and its principal point is the image's middle. Throws std::invalid_argument naming path and line,
/// std::system_error if a file cannot be read.
std::vector<FrameCamera> read_colmap_images(const std::filesystem::path& path);

}  // namespace vggt
