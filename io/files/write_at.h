#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace vggt {

/// Writes all bytes at `offset` of an open file; may be called from several threads. Returns 0, or the errno
/// of what failed.
int write_at(int descriptor, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace vggt
