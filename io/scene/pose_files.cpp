#include "io/scene/pose_files.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "io/files/input_file.h"
#include "io/files/text.h"
#include "io/scene/cameras_json.h"
#include "io/scene/colmap_text.h"
#include "io/scene/tum.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr double kFarthest = 1e15;  // clouds are in fp32, which has no squares of sums of much farther points

/// COLMAP's lines of images have ten fields or more, TUM's eight, which a comment may follow.
bool looks_like_colmap(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view first = next_word(line);
    if (first.empty() || first.starts_with('#')) continue;
    constexpr int kOfTum = 8;
    int fields = 1;
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
      if (fields == kOfTum && word.starts_with('#')) return false;
      ++fields;
    }
    return fields >= 10;
  }
  return false;
}

fs::path file_in(const fs::path& folder) {
  if (const auto file = pose_file_in(folder)) return *file;
  if (fs::exists(folder / "images.bin"))
    throw std::invalid_argument(folder.string() +
                                ": COLMAP's binary files; colmap model_converter writes text");
  throw std::invalid_argument(folder.string() +
                              ": holds no images.txt, transforms.json or scene.cameras.json");
}

/// The cameras of a file of any kind.
std::vector<FrameCamera> read_as_it_looks(const fs::path& path, LensReading lenses) {
  std::error_code ignored;  // reading it says what is wrong
  if (fs::is_directory(path, ignored)) return read_as_it_looks(file_in(path), lenses);
  std::string head = head_of(InputFile(path));
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  if (head.find('\0') != std::string::npos)
    throw std::invalid_argument(path.string() + ": neither TUM nor images.txt nor transforms.json");
  switch (kind_of_poses(head)) {
    case PoseFile::json:
      return read_cameras_json(path, lenses);
    case PoseFile::colmap:
      return read_colmap_images(path, lenses);
    case PoseFile::tum:
      break;
  }
  return read_tum(path);
}

}  // namespace

std::optional<fs::path> pose_file_in(const fs::path& folder) {
  for (const char* name : {"images.txt", "transforms.json", "sparse/0/images.txt", "scene.cameras.json"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

PoseFile kind_of_poses(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return PoseFile::json;
  return looks_like_colmap(text) ? PoseFile::colmap : PoseFile::tum;
}

std::vector<FrameCamera> read_pose_file(const fs::path& path, LensReading lenses) {
  std::vector<FrameCamera> frames = read_as_it_looks(path, lenses);
  for (const FrameCamera& frame : frames) {
    if (!frame.camera.valid || frame.camera.cam_from_world.translation().norm() < kFarthest) continue;
    throw std::invalid_argument(path.string() + ": a position is farther away than 1e15");
  }
  return frames;
}

}  // namespace vggt
