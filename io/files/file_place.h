#pragma once
#include <sys/stat.h>

#include <filesystem>

namespace vggt {

/// Whether an open file is the one that is at a path now: it may have been removed or replaced since.
inline bool is_at(int file, const std::filesystem::path& path) {
  struct stat own = {}, there = {};
  return ::fstat(file, &own) == 0 && ::stat(path.c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

}  // namespace vggt
