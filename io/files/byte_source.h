#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

namespace vggt {

/// Bytes that are read piece by piece: those of a large file, or of memory (tests, fuzzers). A mapping of the
/// file would count as memory: the kernel maps up to 1 MB around every small header that is looked at.
struct ByteSource {
  uint64_t size = 0;
  std::function<void(uint64_t offset, std::span<std::byte> to)> read;  // the range lies within `size`

  /// Throws std::invalid_argument unless the range lies inside.
  std::vector<std::byte> take(uint64_t offset, uint64_t count) const {
    if (offset > size || count > size - offset) throw std::invalid_argument("it ends too early");
    std::vector<std::byte> bytes(count);
    read(offset, bytes);
    return bytes;
  }
};

/// The bytes of some memory, which must outlive the source.
inline ByteSource memory_source(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](uint64_t offset, std::span<std::byte> to) {
            const auto part = bytes.subspan(offset, to.size());
            std::copy(part.begin(), part.end(), to.begin());
          }};
}

}  // namespace vggt
