#include "io/files/staged_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>

#include "io/files/atomic_file.h"
#include "io/files/file_place.h"
#include "io/files/folder_mark.h"
#include "io/files/text.h"

namespace vggt {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(int error, const fs::path& path) {
  throw std::system_error(error, std::generic_category(), "cannot write " + path.string());
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

const std::string kHidden = ".vggt-recon-";  // and six letters
constexpr std::size_t kLetters = 6;

std::string six_letters() {
  std::random_device random;
  std::string letters;
  while (letters.size() < kLetters) letters += static_cast<char>('a' + random() % 26);
  return letters;
}

/// Removes the hidden folders that processes which were killed left in `folder`, where nothing has been made
/// or moved for a minute: else the guard of such a process may still be at work there.
void remove_orphans(const fs::path& folder) {
  constexpr time_t kStill = 60;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kHidden) || name.size() != kHidden.size() + kLetters) continue;
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) == 0 && ::time(nullptr) - status.st_mtim.tv_sec > kStill)
      remove_abandoned(entry.path());
  }
}

constexpr const char* kFileList = ".vggt-recon-files";  // in a folder that was staged

/// The files in a folder and below it, relative to it, but for the list of them.
std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    files.insert(entry.path().lexically_relative(folder).string());
  }
  files.erase(kFileList);
  return files;
}

void write_file_list(const fs::path& folder) {
  const std::set<std::string> files = files_in(folder);
  write_atomically(folder / kFileList, [&](std::ostream& list) {
    for (const std::string& file : files) list << file << '\n';
  });
}

/// Throws where a folder, a device or a pipe stands at a file's place.
void refuse_others(const fs::path& path) {
  const fs::file_status status = fs::status(path);
  if (fs::is_directory(status)) fail(EISDIR, path);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw std::invalid_argument(path.string() + ": is a device or a pipe, which a file would replace");
}

/// Throws what check_replaceable() throws of folders, and where a file would lie in one.
void check_folders(const std::vector<fs::path>& files, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    check_replaceable(folder);
    const fs::path place = place_of(folder);
    for (const fs::path& file : files) {
      const fs::path inner = place_of(file);
      if (is_within(inner, place))
        throw std::invalid_argument(file.string() + ": lies in " + folder.string() +
                                    ", which is made anew as a whole: choose another place");
    }
  }
}

/// Whether what stands at two places has changed places, at once: not every file system can.
bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

/// Gives what stands at `path` a second name, `backup`, or moves it there where the file system knows no
/// second names.
void keep_old(const fs::path& path, const fs::path& backup) {
  std::error_code error;
  fs::create_hard_link(path, backup, error);
  if (error) fs::rename(path, backup, error);
  if (error) fail(error.value(), path);
}

}  // namespace

StagedFiles::StagedFiles(const std::vector<fs::path>& paths, const std::vector<fs::path>& folders)
    : guard_(std::make_unique<KillGuard>()) {
  check_folders(paths, folders);
  try {
    for (const fs::path& path : paths) {
      refuse_others(path);
      make_hidden_folder(folder_of(path));
    }
    for (const fs::path& folder : folders) make_hidden_folder(folder_of(folder));
  } catch (...) {
    remove_all();
    throw;
  }
  remove_all();
}

StagedFiles::~StagedFiles() {
  remove_all();
}

void StagedFiles::make_hidden_folder(const fs::path& folder) {
  if (hidden_folders_.contains(folder)) return;
  constexpr int kTries = 100;
  for (int tries = 1;; ++tries) {
    try {
      make_folders(folder);
      remove_orphans(folder);
      return lock_new_folder(folder);
    } catch (const std::system_error& error) {
      // Another run, which had made the folder, has just removed it.
      if (error.code() != std::errc::no_such_file_or_directory || tries == kTries) throw;
    }
  }
}

void StagedFiles::lock_new_folder(const fs::path& folder) {
  for (;;) {
    const fs::path name = folder / (kHidden + six_letters());
    guard_->watch(name);
    if (::mkdir(name.c_str(), 0700) != 0) {
      const int error = errno;
      guard_->do_not_watch();
      if (error == EEXIST) continue;
      fail(error, folder);
    }
    const int mark = mark_folder(name);
    if (mark < 0 && errno == ENOENT) continue;
    // Without a mark nobody removes it, and what keeps it from being made keeps the outputs, too.
    hidden_folders_[folder] = name;
    if (mark >= 0) locks_.push_back(mark);
    return;
  }
}

void StagedFiles::make_folders(const fs::path& folder) {
  if (fs::is_directory(folder)) return;
  if (folder.has_parent_path()) make_folders(folder.parent_path());
  std::error_code error;
  guard_->watch_made(folder);
  if (fs::create_directory(folder, error)) made_folders_.push_back(folder);
  // What stands there exists, but is no folder.
  if (error) fail(error == std::errc::file_exists ? ENOTDIR : error.value(), folder);
}

fs::path StagedFiles::staged(const fs::path& path) {
  if (!guard_) guard_ = std::make_unique<KillGuard>();
  make_hidden_folder(folder_of(path));
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
  } catch (const std::invalid_argument& error) {
    std::string text = error.what();
    if (const auto at = text.find(place.string()); at != text.npos)
      text.replace(at, place.string().size(), path.string());
    throw std::invalid_argument(text);
  }
}

void StagedFiles::write_folder(const fs::path& folder,
                               const std::function<void(const fs::path& place)>& fill) {
  folders_.push_back(folder);
  write(folder, [&](const fs::path& place) {
    fs::create_directory(place);
    fill(place);
    write_file_list(place);
  });
}

void StagedFiles::commit() {
  const auto is_folder = [&](const fs::path& path) { return std::ranges::count(folders_, path) > 0; };
  for (const auto& [place, path] : files_) {
    if (is_folder(path)) {
      check_replaceable(path);
    } else {
      refuse_others(path);
    }
  }
  enum class Old { stays, none, exchanged, kept };
  struct Replaced {
    fs::path place, path, backup;
    Old old;  // what became of what stood there; stays: nothing has been done yet
  };
  std::vector<Replaced> replaced;
  std::vector<fs::path> places;
  for (const auto& [place, path] : files_) places.push_back(place);
  try {
    if (guard_) guard_->finish(places);
    for (const auto& [place, path] : files_) {
      // All that needs memory comes before what would have to be undone.
      replaced.push_back(
          {place, path, place.parent_path() / (".old-" + path.filename().string()), Old::stays});
      Old& old = replaced.back().old;
      const bool stands = fs::exists(fs::symlink_status(path));
      if (stands && exchange(place, path)) {
        old = Old::exchanged;
        continue;
      }
      if (stands) {
        keep_old(path, replaced.back().backup);
        old = Old::kept;
      }
      std::error_code error;
      fs::rename(place, path, error);
      if (error) fail(error.value(), path);
      if (!stands) old = Old::none;
    }
  } catch (...) {
    std::error_code ignored;
    for (auto file = replaced.rbegin(); file != replaced.rend(); ++file) {
      if (file->old == Old::exchanged) exchange(file->place, file->path);
      // A folder would not be replaced by a rename as a file is.
      if (file->old == Old::none || (file->old == Old::kept && is_folder(file->path)))
        fs::rename(file->path, file->place, ignored);
      if (file->old == Old::kept) fs::rename(file->backup, file->path, ignored);
    }
    if (guard_) guard_->do_not_finish();
    throw;
  }
  committed_ = true;
}

void StagedFiles::remove_all() noexcept {
  std::error_code ignored;
  // Before the folders go: to remove one takes a descriptor, which may be the last.
  for (const int lock : locks_) ::close(lock);
  locks_.clear();
  for (const auto& [folder, hidden] : hidden_folders_) remove_marked(hidden);
  hidden_folders_.clear();
  if (!committed_) {
    // Innermost first; a folder in which something else has appeared stays.
    for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder)
      fs::remove(*folder, ignored);
    made_folders_.clear();
  }
  guard_.reset();  // at last: a process killed before leaves no folder
}

void check_apart(const std::vector<fs::path>& outputs, const std::vector<fs::path>& inputs,
                 const std::vector<fs::path>& folders) {
  const auto refuse = [](const fs::path& output) {
    throw std::invalid_argument(output.string() + ": would replace an input of this run");
  };
  using Identity = std::pair<dev_t, ino_t>;
  const auto identity = [](const fs::path& path) -> std::optional<Identity> {
    struct stat status {};
    if (path.empty() || ::stat(path.c_str(), &status) != 0) return std::nullopt;
    return Identity(status.st_dev, status.st_ino);
  };
  std::map<Identity, fs::path> standing;
  std::error_code ignored;  // where one of them does not exist
  for (const fs::path& output : outputs) {
    if (output.empty()) continue;
    if (const auto known = identity(place_of(output))) standing.emplace(*known, output);
  }
  std::vector<std::pair<fs::path, fs::path>> replaced;
  for (const fs::path& folder : folders) replaced.emplace_back(place_of(folder), folder);
  for (const fs::path& input : inputs) {
    const auto known = standing.empty() ? std::nullopt : identity(input);
    if (const auto output = known ? standing.find(*known) : standing.end(); output != standing.end())
      refuse(output->second);
    if (replaced.empty() || input.empty()) continue;
    const fs::path real = fs::weakly_canonical(input, ignored);
    for (const auto& [path, folder] : replaced) {
      if (!path.empty() && is_within(real, path)) refuse(folder);
    }
  }
}

void check_writable(const std::vector<fs::path>& paths, const std::vector<fs::path>& folders) {
  for (const fs::path& path : paths) refuse_others(path);
  check_folders(paths, folders);
  for (const auto* list : {&paths, &folders}) {
    for (const fs::path& path : *list) {
      fs::path folder = fs::absolute(folder_of(path)).lexically_normal();
      while (!fs::exists(folder) && folder != folder.root_path()) folder = folder.parent_path();
      if (!fs::is_directory(folder)) fail(ENOTDIR, folder);
      if (access(folder.c_str(), W_OK | X_OK) != 0) fail(errno, folder);
    }
  }
  for (const fs::path& folder : folders) {  // what stands there is taken away
    if (fs::is_directory(folder) && access(folder.c_str(), W_OK | X_OK) != 0) fail(errno, folder);
  }
}

void check_writable_file(const fs::path& path) {
  check_writable({path});
  if (!fs::exists(folder_of(path))) fail(ENOENT, folder_of(path));
  if (fs::exists(path) && !fs::is_regular_file(path)) fail(EINVAL, path);
}

void check_replaceable(const fs::path& folder) {
  const fs::file_status status = fs::symlink_status(folder);
  if (!fs::exists(status)) return;
  if (fs::is_symlink(status))
    throw std::invalid_argument(folder.string() +
                                ": is a link, where an export's own folder goes: move it away");
  if (!fs::is_directory(status)) fail(ENOTDIR, folder);
  std::set<std::string> known;
  std::ifstream list(folder / kFileList);
  for (std::string line; std::getline(list, line);) known.insert(line);
  for (const std::string& file : files_in(folder)) {
    if (known.contains(file)) continue;
    throw std::invalid_argument(folder.string() + ": exists and holds '" + printable(file) +
                                "', which no export wrote: move it away, or choose another --out");
  }
}

}  // namespace vggt
