#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace vggt {

/// What becomes of hidden folders, in which outputs are written, should this process be killed: they are
/// removed, or what they hold takes its place. A shell in a session of its own does that, with `stat -c` and
/// `mv -T` of /usr/bin or /bin; where none starts, or it is killed too, they stay as they are; where a child
/// made by fork() lives on, until it ends.
class KillGuard {
 public:
  KillGuard();
  /// The folders stay.
  ~KillGuard();
  KillGuard(const KillGuard&) = delete;
  KillGuard& operator=(const KillGuard&) = delete;

  /// From now on the folder, which need not exist yet, is removed with all that lies in it.
  void watch(const std::filesystem::path& hidden);
  /// Takes the last watch() back.
  void do_not_watch();
  /// From now on the folder, which need not exist yet, is removed after the hidden ones if it is empty.
  void watch_made(const std::filesystem::path& folder);
  /// From now on the folders of watch_made() stay, and these files and folders are
  /// moved out of their hidden folder to the same name beside it; those that have been moved are left alone.
  void finish(const std::vector<std::filesystem::path>& files);
  /// Takes the last finish() back.
  void do_not_finish();

 private:
  void tell(const std::string& lines) const;

  int line_ = -1;  // a socket that the shell reads from: it ends when this process does
  pid_t shell_ = -1;
  std::vector<std::filesystem::path> hidden_;
};

}  // namespace vggt
