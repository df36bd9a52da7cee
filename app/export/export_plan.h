#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "app/options/options.h"

namespace vggt {

/// Which images exports name: the originals; copies of them, upright; copies without distortion. automatic:
/// the originals where each frame is an image file that can be referred to, else copies.
enum class ExportedAs { automatic, originals, copies, undistorted };

enum class MapFormat { png, exr, npy };

/// What --export asks for, and where it goes.
struct ExportPlan {
  std::optional<std::filesystem::path> colmap, nerfstudio, depth, confidence;  // folders
  std::optional<std::filesystem::path> kitti, glb;                             // files
  bool normals = false;                                                        // in the cloud
  ExportedAs images = ExportedAs::automatic;
  MapFormat map_format = MapFormat::png;
  bool network_size = false;  // depth and confidence; else the size of the exported images

  std::vector<std::filesystem::path> files() const;
  std::vector<std::filesystem::path> folders() const;
  bool needs_cameras() const { return colmap || nerfstudio || kitti; }
  bool needs_depth() const { return depth || confidence; }
  /// Whether names and pixels of images matter.
  bool needs_images() const { return colmap || nerfstudio || needs_depth(); }
};

/// `base`: path of the result's files but for their extensions. in_folder: the result has a folder of its
/// own, where exports are called colmap, kitti.txt and so on; else base.colmap, base.kitti.txt and so on.
ExportPlan plan_exports(const Options& options, const std::filesystem::path& base, bool in_folder);

}  // namespace vggt
