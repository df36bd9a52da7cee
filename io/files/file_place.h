#pragma once
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace vggt {

/// Whether an open file is the one that is at a path now: it may have been removed or replaced since.
inline bool is_at(int file, const std::filesystem::path& path) {
  struct stat own = {}, there = {};
  return ::fstat(file, &own) == 0 && ::stat(path.c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

/// A path, absolute, without "." and "..": where a ".." follows a link, it is above what the link leads to,
/// which lexically_normal() passes over. Other links stay, and a slash at the end.
inline std::filesystem::path plain_path(const std::filesystem::path& path) {
  std::filesystem::path plain;
  for (const std::filesystem::path& part : std::filesystem::absolute(path)) {
    if (part == ".") continue;
    if (part != "..") {
      plain /= part;
      continue;
    }
    std::error_code error;
    const std::filesystem::path real = std::filesystem::weakly_canonical(plain, error);
    plain = (error ? plain : real).parent_path();
  }
  return plain;
}

/// Whether a path is a folder, or something in it, by their names alone.
inline bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

/// Where a path will lead once the folders that it goes through are made: until then "made/../a" is none.
inline std::filesystem::path place_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path place =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  return error ? path : place;
}

}  // namespace vggt
