#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "io/frames/image_header.h"

namespace vggt {

/// Damage that a decoder would make up for, or report to stderr only: a missing end, a wrong checksum.
/// `file`: the bytes that the header was read from. Returns what is wrong, or nothing where all is well.
std::optional<const char*> find_damage(const ImageHeader& header, std::span<const std::byte> file);

}  // namespace vggt
