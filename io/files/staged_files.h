#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "io/files/kill_guard.h"

namespace vggt {

/// Files, and folders with all that is in them, that appear together or not at all: written in hidden folders
/// beside their places, then renamed. That is so for a process that is killed, too (KillGuard).
class StagedFiles {
 public:
  /// Makes the outputs' folders and a hidden folder in each of them, and removes them again: so a folder that
  /// cannot be written is known before the work. Hidden folders of processes that were killed, and their
  /// guards too, are removed. Throws std::system_error naming the path; what check_replaceable() throws of
  /// `folders`.
  explicit StagedFiles(const std::vector<std::filesystem::path>& paths,
                       const std::vector<std::filesystem::path>& folders = {});
  /// Removes what was not committed, and the folders made for it.
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Where to write the file that will be `path`. Makes the folders that it takes; throws std::system_error.
  std::filesystem::path staged(const std::filesystem::path& path);
  /// Calls write(place) with that place; what it throws as std::system_error or std::invalid_argument names
  /// `path` instead.
  void write(const std::filesystem::path& path,
             const std::function<void(const std::filesystem::path& place)>& write);
  /// Makes an empty folder and calls fill(place) with it: what will be `folder`. Errors as of write().
  void write_folder(const std::filesystem::path& folder,
                    const std::function<void(const std::filesystem::path& place)>& fill);
  /// Renames everything that was written to its place; folders get a list of their files, by which the next
  /// run knows that it may replace them. Throws std::system_error, and what check_replaceable() throws; then
  /// every place holds what it held before.
  void commit();

 private:
  void lock_new_folder(const std::filesystem::path& folder);
  void make_hidden_folder(const std::filesystem::path& folder);
  void make_folders(const std::filesystem::path& folder);
  void remove_all() noexcept;

  std::map<std::filesystem::path, std::filesystem::path> hidden_folders_;  // by the folder they stand in
  std::unique_ptr<KillGuard> guard_;                                       // of those that are written to
  std::vector<int> locks_;  // the marks of the hidden folders, open while this process lives
  std::vector<std::filesystem::path> made_folders_;                             // outermost first
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> files_;  // staged, final
  std::vector<std::filesystem::path> folders_;  // those among `files_` that are folders, final
  bool committed_ = false;
};

/// Throws std::invalid_argument if an output would replace one of the inputs, or one of the folders that
/// are replaced is or holds one; empty inputs are none.
void check_apart(const std::vector<std::filesystem::path>& outputs,
                 const std::vector<std::filesystem::path>& inputs,
                 const std::vector<std::filesystem::path>& folders = {});

/// Throws std::system_error if an output could not be written, without writing anything; what
/// check_replaceable() throws of `folders`; std::invalid_argument where one of `paths` lies in one of these.
void check_writable(const std::vector<std::filesystem::path>& paths,
                    const std::vector<std::filesystem::path>& folders = {});

/// The same of one file whose folder has to exist, as for write_atomically().
void check_writable_file(const std::filesystem::path& path);

/// Throws std::invalid_argument if a folder exists and holds a file that StagedFiles did not write there, or
/// is a link; std::system_error if it is no folder, or cannot be read.
void check_replaceable(const std::filesystem::path& folder);

}  // namespace vggt
