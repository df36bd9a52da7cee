#pragma once
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/lens_numbers.h"

namespace vggt {

enum class PoseFile { tum, colmap, json };

/// Which of them a text is, by its first lines.
PoseFile kind_of_poses(std::string_view text);

/// Whether a binary file is read as COLMAP's images.bin: by its name's end.
bool is_colmap_binary(const std::filesystem::path& path);

/// The file of a folder that holds poses: images.txt, transforms.json, COLMAP's
/// sparse/0/images.txt, a scene.cameras.json of ours, or images.bin where images.txt may be; nothing if there
/// is none of them.
std::optional<std::filesystem::path> pose_file_in(const std::filesystem::path& folder);

/// The cameras of a TUM file (times), of COLMAP's images.txt or images.bin, of a transforms.json or
/// .cameras.json (names); of a folder, those of pose_file_in(). Throws std::invalid_argument naming the path
/// for what is none of these, for positions beyond 1e15 and for lenses that are to be read whole and cannot;
/// std::system_error if it cannot be read.
std::vector<FrameCamera> read_pose_file(const std::filesystem::path& path,
                                        LensReading lenses = LensReading::as_far_as_known);

}  // namespace vggt
