#include "app/batch/scene_outputs.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "io/files/staged_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// The manifest is a text that anybody may have changed: it names nothing outside of the folder.
bool is_inside(const fs::path& path) {
  return path.is_relative() && !path.empty() && std::ranges::count(path, fs::path("..")) == 0;
}

bool may_be_removed(const fs::path& folder) try {
  check_replaceable(folder);
  return true;
} catch (const std::invalid_argument&) {
  return false;
} catch (const std::system_error&) {
  return false;
}

}  // namespace

std::vector<OutputFile> outputs_in(const fs::path& folder, const std::vector<WrittenFile>& written) {
  std::vector<OutputFile> files;
  for (const WrittenFile& file : written) {
    std::error_code error;
    const std::string path = file.path.lexically_relative(folder).string();
    if (fs::is_directory(file.path, error)) {
      files.push_back({path, -1});
    } else if (const uintmax_t bytes = fs::file_size(file.path, error); !error) {
      files.push_back({path, static_cast<int64_t>(bytes)});
    }
  }
  return files;
}

void remove_outdated(const fs::path& folder, const std::vector<OutputFile>& before,
                     const std::vector<OutputFile>& now) {
  for (const OutputFile& file : before) {
    if (!is_inside(file.path) || std::ranges::count(now, file.path, &OutputFile::path) > 0) continue;
    std::error_code ignored;
    const fs::path path = folder / file.path;
    if (file.bytes >= 0 && fs::is_regular_file(fs::symlink_status(path, ignored))) fs::remove(path, ignored);
    if (file.bytes < 0 && fs::exists(path, ignored) && may_be_removed(path)) fs::remove_all(path, ignored);
  }
}

}  // namespace vggt
