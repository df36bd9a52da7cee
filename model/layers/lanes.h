#pragma once
#include <cstdint>

namespace vggt {

/// The mask of the lanes that so many numbers fill, of sixteen: a vector of AVX-512 in fp32.
inline uint16_t lanes_of(int64_t numbers) {
  return static_cast<uint16_t>(numbers < 16 ? (1U << numbers) - 1 : 0xffffU);
}

}  // namespace vggt
