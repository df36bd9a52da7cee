#include "app/export/export_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace vggt {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, ExportedAs> kImages = {{"auto", ExportedAs::automatic},
                                                   {"refer", ExportedAs::originals},
                                                   {"copy", ExportedAs::copies},
                                                   {"undistort", ExportedAs::undistorted}};
const std::map<std::string, MapFormat> kFormats = {
    {"png", MapFormat::png}, {"exr", MapFormat::exr}, {"npy", MapFormat::npy}};

std::vector<fs::path> present(std::initializer_list<const std::optional<fs::path>*> paths) {
  std::vector<fs::path> result;
  for (const auto* path : paths) {
    if (*path) result.push_back(**path);
  }
  return result;
}

}  // namespace

std::vector<fs::path> ExportPlan::files() const {
  return present({&kitti, &glb});
}

std::vector<fs::path> ExportPlan::folders() const {
  return present({&colmap, &nerfstudio, &depth, &confidence});
}

ExportPlan plan_exports(const Options& options, const fs::path& base, bool in_folder) {
  ExportPlan plan;
  const auto wants = [&](const char* name) { return std::ranges::count(options.exports, name) > 0; };
  const auto place = [&](const std::string& name) {
    return in_folder ? base.parent_path() / name : fs::path(base.string() + "." + name);
  };
  if (wants("colmap")) plan.colmap = place("colmap");
  if (wants("nerfstudio")) plan.nerfstudio = place("nerfstudio");
  if (wants("depth")) plan.depth = place("depth");
  if (wants("confidence")) plan.confidence = place("confidence");
  if (wants("kitti")) plan.kitti = place("kitti.txt");
  if (wants("glb")) plan.glb = base.string() + ".glb";
  plan.normals = wants("normals");
  plan.images = kImages.at(options.export_images);
  if (plan.images != ExportedAs::automatic && plan.folders().empty())
    throw std::invalid_argument(
        "export-images: of the exports none has images, such as colmap and nerfstudio");
  plan.map_format = kFormats.at(options.depth_format);
  plan.network_size = options.depth_size == "network";
  return plan;
}

}  // namespace vggt
