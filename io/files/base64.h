#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace vggt {

/// The bytes as RFC 4648 writes them, padded.
std::string base64(std::span<const uint8_t> bytes);

}  // namespace vggt
