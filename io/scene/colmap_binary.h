#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/lens_numbers.h"

namespace vggt {

/// COLMAP's images.bin, and the intrinsics of cameras.bin where that lies beside it; observations are passed
/// over. Throws std::invalid_argument naming the path, also for lenses that are to be read whole and cannot,
/// std::system_error if a file cannot be read.
std::vector<FrameCamera> read_colmap_binary(const std::filesystem::path& path,
                                            LensReading lenses = LensReading::as_far_as_known);

}  // namespace vggt
