#include "io/files/staged_files.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace vggt {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(int error, const fs::path& path) {
  throw std::system_error(error, std::generic_category(), "cannot write " + path.string());
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void refuse_folder(const fs::path& path) {
  if (fs::is_directory(path)) fail(EISDIR, path);
}

/// Gives what stands at `path` a second name, `backup`, or moves it there where the file system knows no
/// second names. Returns whether anything stood there.
bool keep_old(const fs::path& path, const fs::path& backup) {
  if (!fs::exists(fs::symlink_status(path))) return false;
  std::error_code error;
  fs::create_hard_link(path, backup, error);
  if (error) fs::rename(path, backup, error);
  if (error) fail(error.value(), path);
  return true;
}

}  // namespace

StagedFiles::StagedFiles(const std::vector<fs::path>& paths) {
  try {
    for (const fs::path& path : paths) {
      refuse_folder(path);
      const fs::path folder = folder_of(path);
      if (hidden_folders_.contains(folder)) continue;
      make_folders(folder);
      std::string name = (folder / ".vggt-recon-XXXXXX").string();
      if (!mkdtemp(name.data())) fail(errno, folder);
      hidden_folders_[folder] = name;
    }
  } catch (...) {
    remove_all();
    throw;
  }
}

StagedFiles::~StagedFiles() {
  remove_all();
}

void StagedFiles::make_folders(const fs::path& folder) {
  if (fs::is_directory(folder)) return;
  if (folder.has_parent_path()) make_folders(folder.parent_path());
  std::error_code error;
  if (fs::create_directory(folder, error)) made_folders_.push_back(folder);
  // What stands there exists, but is no folder.
  if (error) fail(error == std::errc::file_exists ? ENOTDIR : error.value(), folder);
}

std::vector<fs::path> StagedFiles::hidden_folders() const {
  std::vector<fs::path> folders;
  for (const auto& [folder, hidden] : hidden_folders_) folders.push_back(hidden);
  return folders;
}

fs::path StagedFiles::staged(const fs::path& path) {
  const fs::path place = hidden_folders_.at(folder_of(path)) / path.filename();
  files_.emplace_back(place, path);
  return place;
}

void StagedFiles::write(const fs::path& path, const std::function<void(const fs::path& place)>& write) {
  const fs::path place = staged(path);
  try {
    write(place);
  } catch (const std::system_error& error) {
    fail(error.code().value(), path);
  }
}

void StagedFiles::commit() {
  for (const auto& [place, path] : files_) refuse_folder(path);
  struct Replaced {
    fs::path path, backup;  // backup empty: nothing stood there
  };
  std::vector<Replaced> replaced;
  try {
    for (const auto& [place, path] : files_) {
      const fs::path backup = place.parent_path() / (".old-" + path.filename().string());
      if (keep_old(path, backup)) replaced.push_back({path, backup});
      std::error_code error;
      fs::rename(place, path, error);
      if (error) fail(error.value(), path);
      if (replaced.empty() || replaced.back().path != path) replaced.push_back({path, {}});
    }
  } catch (...) {
    std::error_code ignored;
    for (auto file = replaced.rbegin(); file != replaced.rend(); ++file) {
      if (file->backup.empty()) {
        fs::remove(file->path, ignored);
      } else {
        fs::rename(file->backup, file->path, ignored);
      }
    }
    throw;
  }
  committed_ = true;
}

void StagedFiles::remove_all() noexcept {
  std::error_code ignored;
  for (const auto& [folder, hidden] : hidden_folders_) fs::remove_all(hidden, ignored);
  if (committed_) return;
  // Innermost first; a folder in which something else has appeared stays.
  for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder)
    fs::remove(*folder, ignored);
}

void check_apart(const std::vector<fs::path>& outputs, const std::vector<fs::path>& inputs) {
  for (const fs::path& output : outputs) {
    for (const fs::path& input : inputs) {
      std::error_code ignored;  // where one of them does not exist
      if (!fs::equivalent(output, input, ignored)) continue;
      throw std::invalid_argument(output.string() + ": would replace an input of this run");
    }
  }
}

void check_writable(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    refuse_folder(path);
    fs::path folder = fs::absolute(folder_of(path)).lexically_normal();
    while (!fs::exists(folder) && folder != folder.root_path()) folder = folder.parent_path();
    if (!fs::is_directory(folder)) fail(ENOTDIR, folder);
    if (access(folder.c_str(), W_OK | X_OK) != 0) fail(errno, folder);
  }
}

}  // namespace vggt
