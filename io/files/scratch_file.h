#pragma once
#include <cstdint>
#include <filesystem>

namespace vggt {

/// A file of fixed size for what does not fit into memory, read and written at any place: nothing of it stays
/// in the process's memory. Several threads may use it at once.
class ScratchFile {
 public:
  /// Creates the file, or empties it, and reserves its bytes where the file system can. Throws
  /// std::system_error: the folder cannot be written, the disk is full.
  ScratchFile(const std::filesystem::path& path, int64_t bytes);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  /// Closes the file and leaves it: its folder removes it.
  ~ScratchFile();

  /// Throw std::system_error.
  void read(int64_t offset, void* to, int64_t bytes) const;
  void write(int64_t offset, const void* from, int64_t bytes);
  /// Returns when all that was written is on the disk.
  void sync();

 private:
  [[noreturn]] void fail(int error, const char* what) const;

  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace vggt
