#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/lens_numbers.h"

namespace vggt {

/// COLMAP's images.txt, with or without its lines of observations, and the intrinsics of cameras.txt where
/// that lies beside it. Throws std::invalid_argument naming path and line, also for lenses that
/// are to be read whole and cannot, std::system_error if a file cannot be read.
std::vector<FrameCamera> read_colmap_images(const std::filesystem::path& path,
                                            LensReading lenses = LensReading::as_far_as_known);

}  // namespace vggt
