#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// Writes a zip archive as PyTorch does: uncompressed, data aligned to 64 bytes, zip64, all names in one top
/// folder. Failures to write show in the state of the stream.
class ZipWriter {
 public:
  ZipWriter(std::ostream& out, std::string top) : out_(out), top_(std::move(top)) {}

  void add(const std::string& name, std::span<const std::byte> data);
  void add(const std::string& name, std::string_view data) { add(name, std::as_bytes(std::span(data))); }
  /// Writes the directory; nothing can be added afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    uint64_t offset, size;
    uint32_t crc32;
  };
  void write(const std::string& bytes);

  std::ostream& out_;
  std::string top_;
  std::vector<Entry> entries_;
  uint64_t position_ = 0;
};

}  // namespace vggt
