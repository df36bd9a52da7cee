#include "app/run/outputs.h"

#include <stdexcept>

namespace vggt {
namespace fs = std::filesystem;

std::vector<fs::path> OutputPaths::all() const {
  std::vector<fs::path> paths;
  for (const auto* path : {&cloud, &cameras, &trajectory, &report, &picture, &page, &predictions}) {
    if (*path) paths.push_back(**path);
  }
  return paths;
}

OutputPaths plan_outputs(const std::string& out, const std::string& picture,
                         const std::string& save_predictions, bool page) {
  OutputPaths paths;
  if (!picture.empty()) {
    paths.picture = picture;
    const fs::path extension = paths.picture->extension();
    if (extension != ".png" && extension != ".jpg" && extension != ".jpeg") {
      throw std::invalid_argument("picture: '" + picture + "' does not end in .png or .jpg");
    }
  }
  if (!save_predictions.empty()) {
    paths.predictions = save_predictions;
    if (paths.predictions->extension() != ".safetensors") {
      throw std::invalid_argument("save-predictions: '" + save_predictions +
                                  "' does not end in .safetensors");
    }
  }
  if (out.empty()) return paths;
  const fs::path path(out);
  fs::path base;  // all names but their extensions
  if (out.ends_with('/') || fs::is_directory(path) || !path.has_extension()) {
    base = path / "scene";
  } else if (path.extension() == ".ply") {
    base = fs::path(path).replace_extension();
    paths.names_cloud = true;
  } else {
    throw std::invalid_argument("out: '" + out + "' must end in .ply or name a folder");
  }
  paths.base = base;
  paths.cloud = base.string() + ".ply";
  paths.cameras = base.string() + ".cameras.json";
  paths.trajectory = base.string() + ".tum";
  paths.report = base.string() + ".report.json";
  if (page) paths.page = base.string() + ".html";
  return paths;
}

}  // namespace vggt
