#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/lens_numbers.h"

namespace vggt {

enum class PoseFile { tum, colmap, json };

/// Which of them a text is, by its first lines.
PoseFile kind_of_poses(std::string_view text);

/// The cameras of a TUM file (times), of COLMAP's images.txt or of a transforms.json or .cameras.json
/// (names); of a folder, those of images.txt or transforms.json in it. Throws std::invalid_argument naming
/// the path for what is none of these, for positions beyond 1e100 and for lenses that are to be read whole
/// and cannot; std::system_error if it cannot be read.
std::vector<FrameCamera> read_pose_file(const std::filesystem::path& path,
                                        LensReading lenses = LensReading::as_far_as_known);

}  // namespace vggt
