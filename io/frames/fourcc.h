#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vggt {

/// Four letters by which a codec is known, as OpenCV's CAP_PROP_FOURCC numbers them: the first is the lowest
/// byte.
constexpr uint32_t fourcc(std::string_view letters) {
  uint32_t code = 0;
  for (std::size_t i = letters.size(); i-- > 0;) code = code << 8 | static_cast<uint8_t>(letters[i]);
  return code;
}

}  // namespace vggt
