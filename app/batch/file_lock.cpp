#include "app/batch/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace vggt {
namespace {

bool lock(int file) {
  int result = 0;
  do {
    result = ::flock(file, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path)
    // NFS locks for writing what is open for writing.
    : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0)
    throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be written");
  struct stat status {};
  if (::fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(file_);
  throw std::system_error(EINVAL, std::generic_category(), path.string() + ": is no file");
}

FileLock::~FileLock() {
  ::close(file_);
}

FileLock::Turn::Turn(FileLock& lock_of)
    : threads_(lock_of.threads_), file_(lock_of.file_), locked_(lock(file_)) {}

FileLock::Turn::~Turn() {
  if (locked_) ::flock(file_, LOCK_UN);
}

}  // namespace vggt
