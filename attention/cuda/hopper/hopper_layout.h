#pragma once
// Where Hopper's tensor cores expect numbers: arithmetic for host and device. Source: PTX ISA, "Asynchronous
// warpgroup level matrix multiply-accumulate" and "Tensor copies".

#include <cstdint>

#include "attention/cuda/swizzle.h"

namespace vggt::hopper {

/// The descriptor of a 128-byte swizzled matrix in shared memory for wgmma. stride: bytes between groups of 8
/// rows. leading: bytes between blocks of 64 columns, for an instruction that spans several (only a
/// transposed one does).
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
