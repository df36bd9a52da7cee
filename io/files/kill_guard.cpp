#include "io/files/kill_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace vggt {
namespace fs = std::filesystem;
namespace {

// Reads what tell() says. The line `done` says that the process needs it no longer; the end alone, that it
// was killed. New files are known by their inodes: where two have changed places, the old one lies in the
// hidden folder, by the same name. What is newer than that is of another run. The text of `hidden` and `made`
// is a path, each byte as \0 and its octal digits.
constexpr const char* kScript = R"(
n=0 finish=
path() { path=$(printf %b. "$1"); path=${path%.}; }
while read -r what text; do
  case $what in
    hidden) n=$((n + 1)); path "$text"; eval "hidden$n=\$path new$n=" ;;
    not) n=$((n - 1)) ;;
    made) path "$text"; set -- "$path" "$@" ;;
    new) eval "new${text%% *}=' ${text#* } '" ;;
    finish) finish=$text ;;
    done) exit ;;
  esac
done
i=0
while [ $i -lt $n ]; do
  i=$((i + 1)) failed=
  eval "hidden=\$hidden$i new=\$new$i"
  if [ "$finish" = yes ]; then
    for file in "$hidden"/* "$hidden"/.*; do
      name=${file##*/}
      place=${hidden%/*}/$name
      case $name in . | ..) continue ;; esac
      case $new in *" $(stat -c %i -- "$file") "*) ;; *) continue ;; esac
      [ "$place" -nt "$file" ] && continue
      old=
      if [ -d "$place" ] && [ ! -L "$place" ]; then
        old=$hidden/.old-$name
        mv -T -- "$place" "$old" || { failed=yes; continue; }
      fi
      if mv -f -T -- "$file" "$place"; then continue; fi
      failed=yes
      [ "$old" ] && mv -T -- "$old" "$place"
    done
  fi
  [ "$failed" ] || rm -rf -- "$hidden"
done
[ "$finish" = yes ] || for folder; do rmdir -- "$folder"; done
)";

/// The path, absolute, as the script reads it.
std::string coded(const fs::path& path) {
  std::string text;
  for (const char c : fs::absolute(path).string()) {
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\0%03o", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += octal;
  }
  return text;
}

/// The shell's process, which reads from the descriptor; -1 where it does not start. A shell with another
/// input would remove what is at work.
pid_t start_shell(int input) {
  const char* const arguments[] = {"sh", "-c", kScript, "sh", nullptr};
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
  if (ready && ::posix_spawn(&shell, "/bin/sh", &files, &attributes, const_cast<char* const*>(arguments),
                             const_cast<char* const*>(environment)) != 0) {
    shell = -1;
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return shell;
}

}  // namespace

KillGuard::KillGuard() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  shell_ = start_shell(ends[0]);
  ::close(ends[0]);
  line_ = ends[1];
}

KillGuard::~KillGuard() {
  if (line_ < 0) return;
  tell("done\n");
  ::close(line_);
  if (shell_ > 0) {
    while (::waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void KillGuard::watch(const fs::path& hidden) {
  tell("hidden " + coded(hidden) + "\n");
  hidden_.push_back(hidden);
}

void KillGuard::do_not_watch() {
  tell("not\n");
  hidden_.pop_back();
}

void KillGuard::watch_made(const fs::path& folder) {
  tell("made " + coded(folder) + "\n");
}

void KillGuard::finish(const std::vector<fs::path>& files) {
  std::string lines;
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    lines += "new " + std::to_string(i + 1) + " 0";  // no inode: the list is never empty
    for (const fs::path& file : files) {
      struct stat status {};
      if (file.parent_path() == hidden_[i] && ::lstat(file.c_str(), &status) == 0)
        lines += " " + std::to_string(status.st_ino);
    }
    lines += "\n";
  }
  tell(lines + "finish yes\n");
}

void KillGuard::do_not_finish() {
  tell("finish no\n");
}

void KillGuard::tell(const std::string& lines) const {
  for (std::size_t sent = 0; sent < lines.size();) {
    const ssize_t count = ::send(line_, lines.data() + sent, lines.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the shell did not start, or was killed
    sent += static_cast<std::size_t>(count);
  }
}

}  // namespace vggt
