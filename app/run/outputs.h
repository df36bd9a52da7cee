#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace vggt {

/// The files that --out, --picture, --report and --save-predictions name. Without --out only `predictions`.
struct OutputPaths {
  std::optional<std::filesystem::path> cloud, cameras, trajectory, report, picture, page, predictions;
  std::optional<std::filesystem::path> base;  // all names of --out's files but their extensions
  bool names_cloud = false;  // --out ends in .ply, so a cloud is asked for

  std::vector<std::filesystem::path> all() const;
};

/// `out`: x.ply names the cloud, and the other files are x.cameras.json, x.tum and x.report.json; a folder
/// (one that exists, ends in a slash or has no extension) gets scene.ply and so on. page: x.html too. Throws
/// std::invalid_argument where `out`, `picture` or `save_predictions` has another extension than its kind of
/// file can have.
OutputPaths plan_outputs(const std::string& out, const std::string& picture,
                         const std::string& save_predictions, bool page = false);

}  // namespace vggt
