#include "app/eval/eval_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "io/files/input_file.h"
#include "io/files/text.h"
#include "io/files/text_file.h"
#include "io/frames/frame_sources.h"
#include "io/scene/ply.h"
#include "io/scene/pose_files.h"
#include "io/scene/prediction_reader.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

enum class FileKind { poses, png, npy, pfm, ply, tensors };

FileKind kind_of(const fs::path& path) {
  std::string head = head_of(InputFile(path));
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  if (head.starts_with("ply\n") || head.starts_with("ply\r")) return FileKind::ply;
  if (head.starts_with("\x89PNG")) return FileKind::png;
  if (head.starts_with("\x93NUMPY")) return FileKind::npy;
  if (head.starts_with("Pf\n") || head.starts_with("Pf ")) return FileKind::pfm;
  if (path.extension() == ".safetensors") return FileKind::tensors;
  if (head.find('\0') != std::string::npos && !is_colmap_binary(path)) {
    throw std::invalid_argument(path.string() + ": holds no cameras, depth or points that are known");
  }
  return FileKind::poses;
}

/// What files hold, with the cameras of predictions apart: these have no names, and count only where no other
/// file holds cameras.
struct Sorted : EvalSide {
  std::vector<Source<FrameCamera>> unnamed_cameras;
};

void add_tensors(const fs::path& path, Sorted& side) {
  const auto file = std::make_shared<const PredictionFile>(path);
  for (int64_t scene = 0; scene < file->scenes(); ++scene) {
    if (file->has_cameras())
      side.unnamed_cameras.push_back({path, [file, scene] { return file->cameras(scene); }});
    if (file->has_depth()) side.depth.push_back({path, [file, scene] { return file->depth(scene); }});
  }
}

std::vector<DepthMap> one(DepthMap map) {
  std::vector<DepthMap> maps;
  maps.push_back(std::move(map));
  return maps;
}

/// The length of one step of the PNGs among the depth maps in a folder: what is given, else what the
/// maps.json of our export says. Throws std::invalid_argument where that says that they are not depth.
double step_of(const fs::path& folder, std::optional<double> given) {
  constexpr double kMillimetre = 0.001;
  constexpr uint64_t kMostBytes = uint64_t{1} << 28;
  const fs::path path = folder / "maps.json";
  if (!fs::is_regular_file(path)) return given.value_or(kMillimetre);
  const std::string text = read_text_file(path, kMostBytes, "a list of maps");
  if (nests_deeply(text)) return given.value_or(kMillimetre);
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (list.is_object() && list.contains("values") && list["values"] == "confidence")
    throw std::invalid_argument(folder.string() + ": holds confidence, by its maps.json, not depth");
  if (given) return *given;
  const bool is_ours =
      list.is_object() && list.contains("maps") && list.contains("unit") && list["unit"].is_number();
  const double unit = is_ours ? list["unit"].get<double>() : 0;
  return unit > 0 && std::isfinite(unit) ? unit : kMillimetre;
}

std::vector<DepthMap> read_depth(const fs::path& path, double unit) {
  const FileKind kind = kind_of(path);
  if (kind == FileKind::png) return one(read_depth_png(path, unit));
  if (kind == FileKind::pfm) return one(read_depth_pfm(path));
  if (kind == FileKind::npy) return read_depth_npy(path);
  throw std::invalid_argument(path.string() + ": neither PNG nor .npy nor .pfm");
}

std::vector<fs::path> depth_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".png" || extension == ".npy" || extension == ".pfm") files.push_back(entry.path());
  }
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

void add_depth_folder(const fs::path& folder, std::optional<double> depth_unit, EvalSide& side) {
  const std::vector<fs::path> files = depth_files(folder);
  if (files.empty())
    throw std::invalid_argument(
        folder.string() +
        ": holds no images.txt, images.bin, transforms.json, scene.cameras.json, .png, .npy or .pfm");
  const auto load = [files, unit = step_of(folder, depth_unit)] {
    std::vector<DepthMap> maps;
    for (const fs::path& file : files) {
      std::vector<DepthMap> read = read_depth(file, unit);
      if (read.size() != 1)
        throw std::invalid_argument(file.string() + ": one of several files, but not of one frame");
      maps.push_back(std::move(read.front()));
    }
    return maps;
  };
  side.depth.push_back({folder, load});
}

void add_file(const fs::path& path, std::optional<double> depth_unit, Sorted& side) {
  switch (kind_of(path)) {
    case FileKind::poses:
      side.cameras.push_back({path, [path] { return read_pose_file(path); }});
      break;
    case FileKind::ply:
      side.clouds.push_back({path, [path] { return read_ply_points(path); }});
      break;
    case FileKind::tensors:
      add_tensors(path, side);
      break;
    case FileKind::png:
    case FileKind::npy:
    case FileKind::pfm:
      side.depth.push_back(
          {path, [path, unit = step_of(path.parent_path(), depth_unit)] { return read_depth(path, unit); }});
      break;
  }
}

}  // namespace

EvalSide sort_inputs(const std::vector<std::string>& paths, std::optional<double> depth_unit) {
  Sorted side;
  for (const fs::path path : paths) {
    if (!fs::is_directory(path)) {
      add_file(path, depth_unit, side);
    } else if (const auto poses = pose_file_in(path)) {
      add_file(*poses, depth_unit, side);
    } else {
      add_depth_folder(path, depth_unit, side);
    }
  }
  if (side.cameras.empty()) {
    side.cameras = std::move(side.unnamed_cameras);
    side.cameras_named = false;
  }
  return side;
}

}  // namespace vggt
