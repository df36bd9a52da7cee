#include "io/files/scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <regex>
#include <string>
#include <system_error>

namespace vggt {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMark = ".vggt-recon-scratch";  // a file in each of these folders

int open_folder(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool has_mark(int folder) {
  struct stat status {};
  return ::fstatat(folder, kMark, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/// Removes the folders of runs that were killed: nobody holds their locks. A user's own may be named alike,
/// so that only a folder with the mark goes, or an empty one, of a run that was killed before it made the
/// mark.
void remove_abandoned(const fs::path& parent) {
  static const std::regex kName("vggt-recon-[0-9]+-[A-Za-z0-9]{6}");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!std::regex_match(entry.path().filename().string(), kName)) continue;
    const int folder = open_folder(entry.path());
    if (folder < 0) continue;
    if (::flock(folder, LOCK_EX | LOCK_NB) == 0) {
      if (has_mark(folder)) {
        fs::remove_all(entry.path(), ignored);
      } else {
        ::rmdir(entry.path().c_str());
      }
    }
    ::close(folder);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  remove_abandoned(parent);
  const std::string pattern = (parent / ("vggt-recon-" + std::to_string(::getpid()) + "-XXXXXX")).string();
  struct stat status {};
  do {  // until no other run took the new folder for an abandoned one before it was locked
    if (lock_ >= 0) ::close(lock_);
    std::string name = pattern;
    if (!::mkdtemp(name.data())) {
      throw std::system_error(errno, std::generic_category(),
                              "scratch: no folder can be made in " + parent.string());
    }
    path_ = name;
    lock_ = open_folder(path_);
    if (lock_ < 0 && errno != ENOENT) {
      const int reason = errno;
      ::rmdir(path_.c_str());
      throw std::system_error(reason, std::generic_category(),
                              "scratch: " + path_.string() + " cannot be locked");
    }
    if (lock_ >= 0) ::flock(lock_, LOCK_EX);
  } while (lock_ < 0 || (::fstat(lock_, &status) == 0 && status.st_nlink == 0));
  const int mark = ::openat(lock_, kMark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (mark < 0) {
    const int reason = errno;
    ::rmdir(path_.c_str());
    ::close(lock_);
    throw std::system_error(reason, std::generic_category(), "scratch: cannot write in " + path_.string());
  }
  ::close(mark);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

}  // namespace vggt
