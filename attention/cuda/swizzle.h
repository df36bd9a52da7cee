#pragma once
// How tiles of 16-bit numbers lie in shared memory: 128-byte swizzling, which Hopper's copy engine and tensor
// cores prescribe, and the kernels for Ampere use as well. Arithmetic for host and device.

#include <cstdint>

namespace vggt {

#if defined(__CUDACC__)
#define VGGT_LAYOUT __host__ __device__ constexpr
#else
#define VGGT_LAYOUT constexpr
#endif

/// Bytes of a swizzled row. Tiles of 16-bit numbers are stored in blocks of 64 columns.
inline constexpr int kRowBytes = 128;
/// A swizzled block starts at a multiple of 8 rows: the hardware permutes by address, not by row.
inline constexpr int kSwizzleBytes = 8 * kRowBytes;

/// Offset in a block of byte `byte` of row `row`: 16-byte units are permuted within 8 rows.
VGGT_LAYOUT uint32_t swizzled_offset(uint32_t row, uint32_t byte) {
  return row * kRowBytes + (byte ^ (row % 8 * 16));
}

/// Offset of column `column` (a multiple of 8) of row 0 before swizzling, in a tile of `rows` rows.
VGGT_LAYOUT uint32_t column_offset(int column, int rows) {
  return column / 64 * rows * kRowBytes + column % 64 * 2;
}

}  // namespace vggt
