#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

namespace vggt {

static_assert(std::endian::native == std::endian::little, "numbers in files are read as little-endian");

/// Takes little-endian values off the front of some bytes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }

  /// Throws std::invalid_argument when fewer bytes are left.
  std::span<const std::byte> take(std::size_t count) {
    if (count > left()) throw std::invalid_argument("it ends too early");
    position_ += count;
    return bytes_.subspan(position_ - count, count);
  }

  /// The next `count` bytes as text. Throws as take().
  std::string_view text(std::size_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  /// The next sizeof(T) bytes as a number. Throws as take().
  template <std::integral T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// Up to the next line feed, which is taken but not part of the result. Throws std::invalid_argument when
  /// there is none.
  std::string_view line();

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace vggt
