#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/input_file.h"
#include "io/frames/fourcc.h"

// What readers of containers share.
namespace vggt {

/// Bytes of a file, from anywhere in it.
class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& path) : file_(path) {}

  uint64_t size() const { return file_.size(); }
  /// Nothing where the file has fewer, or where they are asked for too often, as of a hostile one.
  std::optional<std::string> at(uint64_t offset, std::size_t count) const {
    if (offset > size() || count > size() - offset) return std::nullopt;
    if (++reads_ > kMostReads) return std::nullopt;
    std::string bytes(count, 0);
    file_.read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

 private:
  static constexpr int kMostReads = 100'000;
  InputFile file_;
  mutable int reads_ = 0;
};

inline uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

/// A part of a container, by its type: a box of an MP4, an element of Matroska.
struct Box {
  std::string type;
  uint64_t begin = 0, end = 0;  // of what it holds; `end` may lie behind the file's
};

inline constexpr int kMostBoxes = 4096;  // of one level: hostile files have more

inline const Box* find(const std::vector<Box>& boxes, std::string_view type) {
  const auto found = std::ranges::find(boxes, type, &Box::type);
  return found == boxes.end() ? nullptr : &*found;
}

}  // namespace vggt
