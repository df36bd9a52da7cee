#pragma once
// Where Hopper's copy engine and tensor cores expect numbers: arithmetic for host and device. Facts: PTX ISA,
// "Asynchronous warpgroup level matrix multiply-accumulate" and "Tensor copies".

#include <cstdint>

namespace vggt::hopper {

#if defined(__CUDACC__)
#define VGGT_LAYOUT __host__ __device__ constexpr
#else
#define VGGT_LAYOUT constexpr
#endif

/// Bytes of a swizzled row: tiles of 16-bit numbers are stored in blocks of 64 columns.
inline constexpr int kRowBytes = 128;
/// Swizzled blocks start at multiples of 8 rows, or the hardware would permute them otherwise than we say.
inline constexpr int kSwizzleBytes = 8 * kRowBytes;

/// Where the byte at (row, byte of the row) of a block lies: 16-byte units are permuted within 8 rows.
VGGT_LAYOUT uint32_t swizzled_offset(uint32_t row, uint32_t byte) {
  return row * kRowBytes + (byte ^ (row % 8 * 16));
}

/// Where column `column` (a multiple of 8) of row 0 lies before swizzling, in a tile of this many rows.
VGGT_LAYOUT uint32_t column_offset(int column, int rows) {
  return column / 64 * rows * kRowBytes + column % 64 * 2;
}

/// How wgmma finds a 128-byte swizzled matrix in shared memory. stride: bytes between groups of 8 rows;
/// leading: bytes between blocks of 64 columns, where an instruction spans several (only a transposed one
/// does).
VGGT_LAYOUT uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | uint64_t{stride >> 4} << 32 | uint64_t{leading >> 4} << 16 | (address & 0x3FFFF) >> 4;
}

/// Row and column of number i of a thread's accumulator of m64nN; thread: 0..127 of the warpgroup.
VGGT_LAYOUT int fragment_row(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
VGGT_LAYOUT int fragment_column(int thread, int i) {
  return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

}  // namespace vggt::hopper
