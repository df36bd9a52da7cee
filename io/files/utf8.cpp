#include "io/files/utf8.h"

#include <array>
#include <cstdint>

namespace vggt {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80            ? 1
                             : first >> 5 == 0b110   ? 2
                             : first >> 4 == 0b1110  ? 3
                             : first >> 3 == 0b11110 ? 4
                                                     : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? first : first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0b10) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[length] || code > 0x10ffff || is_surrogate ? 0 : length;
}

}  // namespace vggt
