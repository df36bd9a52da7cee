#pragma once
#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace vggt {

/// While it lives: a folder that is removed with all that lies in it should this process be killed, and then
/// the folders that were made for it, where they are empty. A shell in a session of its own does that; where
/// none starts, or it is killed too, the folder stays; where a child made by fork() lives on, until it ends.
class KillGuard {
 public:
  /// made_for_it: outermost first.
  KillGuard(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& made_for_it);
  /// The folders stay.
  ~KillGuard();
  KillGuard(const KillGuard&) = delete;
  KillGuard& operator=(const KillGuard&) = delete;

 private:
  int line_ = -1;  // a socket that the shell reads from: it ends when this process does
  pid_t shell_ = -1;
};

}  // namespace vggt
