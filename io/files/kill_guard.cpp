#include "io/files/kill_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace vggt {
namespace fs = std::filesystem;
namespace {

// A line of text says that the process needs it no longer; the end alone, that it was killed.
constexpr const char* kScript =
    R"(read -r line && exit; rm -rf -- "$1"; shift; for folder; do rmdir -- "$folder"; done)";

/// The shell's process, which reads from the descriptor; -1 where it does not start. A shell with another
/// input would remove what is at work.
pid_t start_shell(int input, const std::vector<const char*>& arguments) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&files) != 0) return -1;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&files);
    return -1;
  }
  sigset_t none;
  ::sigemptyset(&none);
  bool ready = ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO) == 0 &&
               ::posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
               ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK) == 0;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    ready = ready && ::posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0) == 0;
  const char* const environment[] = {"PATH=/usr/bin:/bin", nullptr};
  pid_t shell = -1;
  if (ready &&
      ::posix_spawn(&shell, "/bin/sh", &files, &attributes, const_cast<char* const*>(arguments.data()),
                    const_cast<char* const*>(environment)) != 0) {
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
  std::vector<const char*> arguments = {"sh", "-c", kScript, "sh"};
  for (const std::string& each : folders) arguments.push_back(each.c_str());
  arguments.push_back(nullptr);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  shell_ = start_shell(ends[0], arguments);
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
