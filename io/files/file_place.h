#pragma once
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

namespace vggt {

/// Whether an open file is the one that is at a path now: it may have been removed or replaced since.
inline bool is_at(int file, const std::filesystem::path& path) {
  struct stat own = {}, there = {};
  return ::fstat(file, &own) == 0 && ::stat(path.c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

/// Where a path will lead once the folders that it goes through are made: until then "made/../a" is none.
inline std::filesystem::path place_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path place =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  return error ? path : place;
}

}  // namespace vggt
