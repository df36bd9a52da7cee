#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vggt {

static_assert(std::endian::native == std::endian::little, "weight files are read as little-endian");

/// A name out of a file, fit for a message: control characters replaced, shortened to 100 characters.
std::string printable(std::string_view text);

/// Takes the next word, between blanks, off the front of a line; empty at its end.
std::string_view next_word(std::string_view& line);

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

  std::string_view text(std::size_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  template <std::integral T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// Up to the next line feed, which is taken but not part of the result.
  std::string_view line();

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace vggt
