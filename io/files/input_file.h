#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace vggt {

/// A regular file, open for reading.
class InputFile {
 public:
  /// Throws std::system_error naming the path if it cannot be opened, std::invalid_argument if it is not a
  /// file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  /// Fills `to` from `offset` on; may be called from several threads. Throws std::system_error naming the
  /// path, std::invalid_argument if the file has become shorter.
  void read(uint64_t offset, std::span<std::byte> to) const;

 private:
  friend class FileMapping;
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// Its first bytes, so many or all: what kinds of files are known by.
std::string head_of(const InputFile& file, uint64_t most = 1 << 16);

/// The whole of a file as memory; its pages are read when they are looked at. Throws std::system_error naming
/// the path if it cannot be mapped.
class FileMapping {
 public:
  explicit FileMapping(const InputFile& file);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace vggt
