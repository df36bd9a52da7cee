#include "io/files/folder_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "io/files/file_place.h"

namespace vggt {
namespace fs = std::filesystem;

int mark_folder(const fs::path& folder) {
  const fs::path mark = folder / kFolderMark;
  const int file = ::open(mark.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return -1;
  ::flock(file, LOCK_EX);
  if (is_at(file, mark)) return file;
  ::close(file);
  errno = ENOENT;
  return -1;
}

void remove_marked(const fs::path& folder) noexcept try {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename() != kFolderMark) fs::remove_all(entry.path(), ignored);
  }
  fs::remove_all(folder, ignored);
} catch (...) {
  // Without memory for a path it stays, and the next process removes it.
}

void remove_abandoned(const fs::path& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
    return;
  const fs::path mark = folder / kFolderMark;
  const int file = ::open(mark.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) ::rmdir(folder.c_str());
    return;
  }
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && ::flock(file, LOCK_EX | LOCK_NB) == 0)
    remove_marked(folder);
  ::close(file);
}

}  // namespace vggt
