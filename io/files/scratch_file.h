#pragma once
#include <cstdint>
#include <filesystem>

namespace vggt {

/// Bytes that count as this process's scratch files as long as the object lives. Members may be called from
/// several threads.
class ScratchBytes {
 public:
  ScratchBytes() = default;
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;
  ~ScratchBytes() { hold(0); }
  void hold(int64_t bytes);
  /// The same where that is more.
  void hold_at_least(int64_t bytes);

 private:
  void set(int64_t bytes);

  int64_t bytes_ = 0;
};
/// Most bytes of scratch files that this process held at once since begin_peak_scratch_bytes() last began
/// anew.
int64_t peak_scratch_bytes();
/// Begins anew where this process holds none.
void begin_peak_scratch_bytes();

/// A file of fixed size for what does not fit into memory, read and written at any place: nothing of it stays
/// in the process's memory. Several threads may use it at once.
class ScratchFile {
 public:
  /// Creates the file, or empties it, and reserves its bytes where the file system can. Throws
  /// std::system_error: the folder cannot be written, the disk is full.
  ScratchFile(const std::filesystem::path& path, int64_t bytes);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  /// Removes the file, unless it is to be kept.
  ~ScratchFile();
  void keep() { kept_ = true; }

  /// Throw std::system_error.
  void read(int64_t offset, void* to, int64_t bytes) const;
  void write(int64_t offset, const void* from, int64_t bytes);
  /// Returns when all that was written is on the disk.
  void sync();

 private:
  [[noreturn]] void fail(int error, const char* what) const;

  std::filesystem::path path_;
  int file_ = -1;
  bool kept_ = false;
  ScratchBytes bytes_;
};

}  // namespace vggt
