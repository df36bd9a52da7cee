#pragma once
// Numbers, rows and tiles of the split GEMM: arithmetic for host and device.

#include <cstdint>

#include "model/layers/gemm_work.h"

namespace vggt {

#if defined(__CUDACC__)
#define VGGT_SPLIT __host__ __device__ constexpr
#else
#define VGGT_SPLIT constexpr
#endif

/// In place of the exponent of a row with numbers that are not finite.
inline constexpr int kNotFinite = 1 << 20;
/// Columns whose high parts lie side by side, their low parts behind them: both fill 128 bytes.
inline constexpr int kSplitColumns = 32;

/// e that takes a row's largest |x|, given as its bits, to [2^14, 2^15) when multiplied by 2^e. At most 126,
/// so that 2^e and 2^-e are normal numbers: smaller rows are exact all the same, as fp32 has no finer steps.
VGGT_SPLIT int row_exponent(uint32_t largest_bits) {
  const int biased = static_cast<int>(largest_bits >> 23);
  return biased == 255 ? kNotFinite : biased < 15 ? 126 : 141 - biased;
}

/// The bits of 2^k, -126 <= k <= 127.
VGGT_SPLIT uint32_t power_of_two_bits(int k) {
  return static_cast<uint32_t>(k + 127) << 23;
}

/// 2^-e is applied in two steps, 2^-half and 2^-(e - half): of a row's and a column's exponent together it
/// may be beyond fp32's range where the result is not.
VGGT_SPLIT int half_exponent(int e) {
  return e >> 1;
}

/// fp16 numbers in a row of parts.
VGGT_SPLIT int64_t split_width(int64_t columns) {
  return (columns + kSplitColumns - 1) / kSplitColumns * kSplitColumns * 2;
}
/// Where the high part of a column lies; its low part is kSplitColumns further.
VGGT_SPLIT int split_column(int column) {
  return column / kSplitColumns * 2 * kSplitColumns + column % kSplitColumns;
}

/// Rows and columns of a block's tile of the output.
inline constexpr int kGemmTile = 128;

}  // namespace vggt
