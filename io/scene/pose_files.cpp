#include "io/scene/pose_files.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/input_file.h"
#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/scene/cameras_json.h"
#include "io/scene/colmap_binary.h"
#include "io/scene/colmap_text.h"
#include "io/scene/tum.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr double kFarthest = 1e15;  // clouds are in fp32, which has no squares of sums of much farther points

/// The words of the first line that is neither empty nor a comment.
std::vector<std::string_view> first_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty() && words.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line))
      words.push_back(word);
    if (!words.empty() && words.front().starts_with('#')) words.clear();
  }
  return words;
}

/// COLMAP's lines of images have ten fields or more, TUM's eight, which a comment may follow.
bool looks_like_colmap(std::string_view text) {
  constexpr std::size_t kOfTum = 8, kOfColmap = 10;
  const std::vector<std::string_view> words = first_words(text);
  return words.size() >= kOfColmap && !words[kOfTum].starts_with('#');
}

/// Whether it may be COLMAP's cameras.txt: the number of a camera, and the name of its model.
bool looks_like_colmap_cameras(std::string_view text) {
  const std::vector<std::string_view> words = first_words(text);
  return words.size() > 4 && words[1].front() >= 'A' && words[1].front() <= 'Z';
}

/// Whether they are KITTI's: lines of the twelve numbers of a 3×4 matrix.
bool looks_like_kitti(std::string_view text) {
  const std::vector<std::string_view> words = first_words(text);
  const auto is_number = [](std::string_view word) { return parse_number<double>(word).has_value(); };
  return words.size() == 12 && std::ranges::all_of(words, is_number);
}

fs::path file_in(const fs::path& folder) {
  if (const auto file = pose_file_in(folder)) return *file;
  throw std::invalid_argument(folder.string() +
                              ": holds no images.txt, images.bin, transforms.json or scene.cameras.json");
}

/// The cameras of a file of any kind.
std::vector<FrameCamera> read_as_it_looks(const fs::path& path, LensReading lenses) {
  std::error_code ignored;  // reading it says what is wrong
  if (fs::is_directory(path, ignored)) return read_as_it_looks(file_in(path), lenses);
  std::string head = head_of(InputFile(path));
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  for (const char* other : {"cameras.bin", "points3D.bin", "frames.bin", "rigs.bin"}) {
    if (path.filename() == other)
      throw std::invalid_argument(path.string() +
                                  ": of COLMAP's files one that names no images; give images.bin beside it");
  }
  const bool is_binary = head.find('\0') != std::string::npos;
  if (path.filename() == "images.bin" || (is_binary && is_colmap_binary(path)))
    return read_colmap_binary(path, lenses);
  if (is_binary)
    throw std::invalid_argument(path.string() +
                                ": neither TUM nor images.txt nor images.bin nor transforms.json");
  if (looks_like_kitti(head))
    throw std::invalid_argument(path.string() +
                                ": KITTI's poses, which name no frames; give TUM, images.txt or "
                                "transforms.json");
  switch (kind_of_poses(head)) {
    case PoseFile::json:
      return read_cameras_json(path, lenses);
    case PoseFile::colmap:
      return read_colmap_images(path, lenses);
    case PoseFile::tum:
      break;
  }
  if (looks_like_colmap_cameras(head))
    throw std::invalid_argument(path.string() +
                                ": COLMAP's cameras, which name no images; give images.txt beside it");
  return read_tum(path);
}

}  // namespace

std::optional<fs::path> pose_file_in(const fs::path& folder) {
  for (const char* name : {"images.txt", "transforms.json", "sparse/0/images.txt", "scene.cameras.json",
                           "images.bin", "sparse/0/images.bin"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

bool is_colmap_binary(const fs::path& path) {
  return path.extension() == ".bin";
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
