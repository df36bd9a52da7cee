#pragma once
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vggt {

/// CRC-32 as zip archives and PNG use it.
inline uint32_t crc32(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// The sum of A followed by B, from the sums of both and B's length: parts can be summed on several threads.
inline uint32_t combine_crc32(uint32_t a, uint32_t b, std::size_t b_bytes) {
  return static_cast<uint32_t>(::crc32_combine(a, b, static_cast<z_off_t>(b_bytes)));
}

}  // namespace vggt
