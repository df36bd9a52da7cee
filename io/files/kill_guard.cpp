#include "io/files/kill_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace vggt {
namespace fs = std::filesystem;
namespace {

// A line of text says that the process needs it no longer; the end alone, that it was killed.
constexpr const char* kScript =
    R"(read -r line && exit; rm -rf -- "$1"; shift; for folder; do rmdir -- "$folder"; done)";

/// The shell's process, which reads from the descriptor; -1 where it does not start.
pid_t start_shell(int input, const std::vector<std::string>& folders) {
  std::vector<const char*> arguments = {"sh", "-c", kScript, "sh"};
  for (const std::string& folder : folders) arguments.push_back(folder.c_str());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t shell = -1;
  if (::posix_spawn(&shell, "/bin/sh", &files, &attributes, const_cast<char* const*>(arguments.data()),
                    environ) != 0) {
    shell = -1;
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return shell;
}

}  // namespace

KillGuard::KillGuard(const fs::path& folder, const std::vector<fs::path>& made_for_it) {
  std::vector<std::string> folders = {fs::absolute(folder).string()};
  for (auto outer = made_for_it.rbegin(); outer != made_for_it.rend(); ++outer)
    folders.push_back(fs::absolute(*outer).string());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  shell_ = start_shell(ends[0], folders);
  ::close(ends[0]);
  line_ = ends[1];
}

KillGuard::~KillGuard() {
  if (line_ < 0) return;
  ::send(line_, "\n", 1, MSG_NOSIGNAL);  // nobody reads it where the shell was killed
  ::close(line_);
  if (shell_ > 0) {
    while (::waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace vggt
