#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// An image of a transforms.json: its camera, whose `file` is the image's path as the JSON file shall name
/// it, and its depth map's path; empty: there is none.
struct NerfFrame {
  FrameCamera image;
  std::string depth_file;
};

/// Writes nerfstudio's transforms.json: world_from_cam with OpenGL's axes (x right, y up, z back), intrinsics
/// and k1, k2 with pixel centres at .5; the intrinsics once where all images have the same. `ply`: the path
/// of the points as the JSON file shall name it. Throws std::system_error if the file cannot be written.
void write_transforms_json(const std::filesystem::path& path, const std::vector<NerfFrame>& frames,
                           const std::string& ply);

}  // namespace vggt
