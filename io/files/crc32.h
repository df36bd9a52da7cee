#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace vggt {

/// CRC-32 as zip archives use it (polynomial 0xEDB88320). `before`: the sum of what came before these bytes.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// The sum of A followed by B, from the sums of both and B's length: parts can be summed on several threads.
uint32_t combine_crc32(uint32_t a, uint32_t b, uint64_t b_bytes);

}  // namespace vggt
