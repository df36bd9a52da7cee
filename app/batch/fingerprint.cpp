#include "app/batch/fingerprint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string_view>
#include <vector>

#include "app/options/option_texts.h"
#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// FNV-1a of 64 bits over texts.
class Sum {
 public:
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(0);
  }
  /// Name, size and time of a file, which change with its contents.
  void add_file(std::string_view name, const fs::path& path) {
    add(name);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return add("missing");
    if (S_ISDIR(status.st_mode)) return add("folder");
    add(std::to_string(status.st_size));
    add(std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec));
  }
  std::string text() const {
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(sum_));
    return hex;
  }

 private:
  void mix(unsigned char byte) { sum_ = (sum_ ^ byte) * 0x100000001b3; }
  uint64_t sum_ = 0xcbf29ce484222325;
};

/// A file, or all files in a folder and in the folders in it.
void add_tree(Sum& sum, const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return sum.add_file("", path);
  std::vector<std::string> names;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().lexically_relative(path).string());
  std::ranges::sort(names);
  for (const std::string& name : names) sum.add_file(name, path / name);
  sum.add(error.message());
}

void add_frames(Sum& sum, const fs::path& source) try {
  const SourceKind kind = kind_of_source(source);
  if (kind == SourceKind::video || kind == SourceKind::tensor_file) return sum.add_file("", source);
  const ImageList images = find_images(source, kind);
  for (std::size_t i = 0; i < images.names.size(); ++i) sum.add_file(images.names[i], images.path(i));
} catch (const std::exception& error) {
  sum.add(error.what());  // the run will say it
}

/// Options that leave the result as it is, but for rounding; frames and weights have sums of their own.
constexpr std::array kWithout{"frames",     "out",         "weights", "device", "threads",
                              "gpu-memory", "host-memory", "scratch", "resume", "dry-run",
                              "quiet",      "verbose",     "open"};

}  // namespace

Fingerprint fingerprint_of(const Options& options, const fs::path& weights) {
  Sum frames, settings, model;
  add_frames(frames, options.frames);
  for (const std::string& path :
       {options.masks, options.query_points, options.intrinsics, options.poses, options.align}) {
    if (!path.empty()) add_tree(frames, path);
  }
  // Defaults are left out, so that a program with one more option finds the same sum.
  const std::map<std::string, std::string> defaults = option_texts(Options());
  for (const auto& [name, text] : option_texts(options)) {
    if (text == defaults.at(name) || std::ranges::count(kWithout, std::string_view(name)) > 0) continue;
    settings.add(name);
    settings.add(text);
  }
  model.add_file("", weights);
  // What lies beside weights and says what they mean, see io/weights/weight_file.h.
  for (const fs::path& config :
       {weights.parent_path() / "config.json", fs::path(weights).replace_extension(".config.json")}) {
    std::error_code ignored;
    if (fs::exists(config, ignored)) model.add_file(config.filename().string(), config);
  }
  return {frames.text(), settings.text(), model.text()};
}

std::string changes(const Fingerprint& before, const Fingerprint& now) {
  std::string names;
  for (const auto& [name, member] : {std::pair("frames", &Fingerprint::frames),
                                     {"options", &Fingerprint::options},
                                     {"weights", &Fingerprint::weights}}) {
    if (before.*member != now.*member) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace vggt
