#include "io/frames/frame_sources.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "io/files/input_file.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr std::array kImageExtensions{".jpg", ".jpeg", ".png",  ".webp", ".tif", ".tiff",
                                      ".bmp", ".heic", ".heif", ".hif",  ".avif"};
constexpr std::array kVideoExtensions{".mp4",  ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg",
                                      ".mpeg", ".wmv", ".ts",  ".mts", ".m2ts", ".3gp", ".ogv"};

bool has_extension(const fs::path& path, std::span<const char* const> extensions) {
  const std::string extension = lower(path.extension().string());
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

[[noreturn]] void fail_to_read(const fs::path& path, std::error_code error) {
  throw std::system_error(error, path.string() + ": cannot be read");
}

bool is_text(const fs::path& path) {
  return head_of(InputFile(path), 4096).find('\0') == std::string::npos;
}

bool is_image(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code ignored;  // a link that leads nowhere stays in: reading it gives the warning
  if (name.starts_with('.') || entry.is_directory(ignored) || entry.is_other(ignored)) return false;
  return has_extension(name, kImageExtensions);
}

bool holds_images(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_image(*at)) return true;
  }
  return false;
}

// What a folder without images holds instead: folders with images, or videos. Empty if it holds none.
std::string scenes_in(const fs::path& folder) {
  std::vector<fs::path> scenes;
  std::error_code error, ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.filename().string().starts_with('.')) continue;
    const bool is_folder = at->is_directory(ignored);
    if (is_folder ? holds_images(path) : has_extension(path, kVideoExtensions)) scenes.push_back(path);
  }
  if (scenes.empty()) return {};
  if (scenes.size() == 1) return "; did you mean " + scenes.front().string() + "?";
  return "; it holds " + std::to_string(scenes.size()) +
         " folders of images or videos: `vggt-recon batch --scenes " + folder.string() +
         "` takes each as a scene";
}

ImageList images_of_folder(const fs::path& folder) {
  std::error_code error;
  ImageList list{folder, folder, {}, {}};
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_image(*at)) list.names.push_back(at->path().filename().string());
  }
  if (error) fail_to_read(folder, error);
  std::sort(list.names.begin(), list.names.end(), natural_less);
  if (list.names.empty()) {
    throw std::invalid_argument(folder.string() +
                                ": no images in this folder (jpg, png, webp, tiff, bmp, heic, avif)" +
                                scenes_in(folder));
  }
  return list;
}

ImageList images_of_list(const fs::path& path) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  std::istringstream text_of_list(read_text_file(path, kMaxBytes, "a list of images"));
  ImageList list{path, path.parent_path(), {}, {}};
  std::string line;
  for (int number = 1; std::getline(text_of_list, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    list.names.emplace_back(text);
    list.lines.push_back(number);
  }
  if (list.names.empty()) throw std::invalid_argument(path.string() + ": lists no images");
  return list;
}

}  // namespace

SourceKind kind_of_source(const fs::path& source) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (status.type() == fs::file_type::not_found) {
    throw std::invalid_argument(source.string() + ": no such file or folder");
  }
  if (error) fail_to_read(source, error);
  if (fs::is_directory(status)) return SourceKind::folder;
  if (has_extension(source, kImageExtensions)) return SourceKind::image;
  if (has_extension(source, kVideoExtensions)) {
    if (!fs::is_regular_file(status)) throw std::invalid_argument(source.string() + ": not a file");
    return SourceKind::video;
  }
  if (has_extension(source, std::array{".safetensors"})) return SourceKind::tensor_file;
  if (fs::is_fifo(status)) return SourceKind::list;  // a shell's <(…): looking into it would take its bytes
  if (fs::is_regular_file(status) && is_text(source)) return SourceKind::list;
  throw std::invalid_argument(source.string() +
                              ": not a folder, an image, a video, a list of paths or a .safetensors file");
}

SourceKind kind_of_source(const FrameOptions& options) {
  const int given = !options.source.empty() + !options.paths.empty() + !options.images.empty();
  if (given != 1) {
    throw std::invalid_argument(given == 0 ? "frames: no frames were given"
                                           : "frames: give a source, paths or images, not several of them");
  }
  if (!options.images.empty()) return SourceKind::memory;
  return options.paths.empty() ? kind_of_source(options.source) : SourceKind::list;
}

std::string ImageList::where(std::size_t i) const {
  if (lines.empty()) return path(i).string();
  return source.string() + ":" + std::to_string(lines[i]) + ": " + names[i];
}

ImageList find_images(const fs::path& source, SourceKind kind) {
  if (kind == SourceKind::folder) return images_of_folder(source);
  if (kind == SourceKind::list) return images_of_list(source);
  return {source, source.parent_path(), {source.filename().string()}, {}};
}

bool natural_less(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto take_number = [&](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view x = take_number(a, i), y = take_number(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // the same but for leading zeros
}

std::vector<std::size_t> choose_evenly(std::size_t count, std::optional<int> max_count) {
  const std::size_t limit = max_count ? static_cast<std::size_t>(*max_count) : count;
  std::vector<std::size_t> chosen(std::min(count, limit));
  if (chosen.size() == count) {
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    return chosen;
  }
  const std::size_t gaps = std::max<std::size_t>(1, chosen.size() - 1);
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = (i * (count - 1) + gaps / 2) / gaps;
  return chosen;
}

}  // namespace vggt
