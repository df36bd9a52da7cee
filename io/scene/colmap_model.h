#pragma once
#include <filesystem>

#include "io/scene/exported_scene.h"

namespace vggt {

/// Writes a scene as COLMAP's sparse model into a folder that exists: cameras, images and points3D, each as
/// .bin and .txt. Images that share their camera's number share its intrinsics, those of the first of them;
/// numbers begin at 1, in order. Pixel centres lie at .5, as COLMAP has them. Points without observations
/// have tracks of length 0. Throws std::system_error if a file cannot be written.
void write_colmap_model(const std::filesystem::path& folder, const ExportedScene& scene);

}  // namespace vggt
