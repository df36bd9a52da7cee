// The addresses that wgmma computes from our descriptors are those where the copy engine puts the numbers.
#include <gtest/gtest.h>

#include <set>

#include "attention/cuda/hopper/hopper_layout.h"

namespace {

using namespace vggt;
using namespace vggt::hopper;

constexpr uint32_t kBase = 5 * kSwizzleBytes;  // of a tile, in shared memory

/// What the hardware reads out of a descriptor.
struct Matrix {
  uint32_t start, leading, stride;

  explicit Matrix(uint64_t descriptor)
      : start(static_cast<uint32_t>(descriptor & 0x3FFF) << 4),
        leading(static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) << 4),
        stride(static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) << 4) {}

  // Swizzling permutes address bits 4 to 6 by bits 7 to 9.
  static uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

  /// Byte address of element (row, k) of an operand with k contiguous.
  uint32_t at(int row, int k) const { return swizzled(start + row / 8 * stride + row % 8 * 128 + 2 * k); }
  /// Byte address of element (k, column) of an operand with columns contiguous.
  uint32_t transposed(int k, int column) const {
    return swizzled(start + column / 64 * leading + column % 64 * 2 + k / 8 * stride + k % 8 * 128);
  }
};

/// Where the copy engine puts (row, column) of a tile copied in boxes of 64 columns.
uint32_t copied(int row, int column, int rows) {
  return kBase + column_offset(column / 64 * 64, rows) + swizzled_offset(row, column % 64 * 2);
}

TEST(HopperLayout, DescriptorFields) {
  const uint64_t d = matrix_descriptor(0x12340, 0x4000, 0x400);
  EXPECT_EQ(d >> 62, 1u);  // 128-byte swizzle
  EXPECT_EQ(d >> 49 & 7, 0u);
  const Matrix m(d);
  EXPECT_EQ(m.start, 0x12340u);
  EXPECT_EQ(m.leading, 0x4000u);
  EXPECT_EQ(m.stride, 0x400u);
}

class HopperTile : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(HopperTile, StepsAlongContiguousRows) {
  const auto [rows, dim] = GetParam();
  for (int column = 0; column < dim; column += 16) {
    const Matrix m(matrix_descriptor(kBase, 0, kSwizzleBytes) + column_offset(column, rows) / 16);
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < 16; ++k) ASSERT_EQ(m.at(row, k), copied(row, column + k, rows));
    }
  }
}

TEST_P(HopperTile, StepsAcrossRows) {
  const auto [rows, dim] = GetParam();
  for (int row = 0; row < rows; row += 16) {
    const Matrix m(matrix_descriptor(kBase, rows * kRowBytes, kSwizzleBytes) + row * kRowBytes / 16);
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < dim; ++column)
        ASSERT_EQ(m.transposed(k, column), copied(row + k, column, rows));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HopperTile,
                         testing::Combine(testing::Values(64, 128, 192), testing::Values(64, 128)));

TEST(HopperLayout, FragmentsCoverTheTileOnce) {
  std::set<std::pair<int, int>> seen;
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 64; ++i) seen.insert({fragment_row(thread, i), fragment_column(thread, i)});
  }
  EXPECT_EQ(seen.size(), 64u * 128u);
  EXPECT_EQ(seen.rbegin()->first, 63);
  // PTX ISA, figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D".
  EXPECT_EQ(fragment_row(0, 2), 8);
  EXPECT_EQ(fragment_row(4, 0), 1);
  EXPECT_EQ(fragment_row(32, 0), 16);
  EXPECT_EQ(fragment_column(1, 0), 2);
  EXPECT_EQ(fragment_column(0, 5), 9);
}

}  // namespace
