#pragma once
// Means of segments of rows on a GPU. Free of torch.

#include <cstdint>

#include "model/layers/operand_type.h"

namespace vggt {

/// Row r of `out` is the mean of rows members[offsets[r]], ..., members[offsets[r + 1] - 1] of `values`, or
/// zeros. Rows of T, OperandType; pointers are aligned to 16 bytes, columns and the stride of `out` fill
/// them.
struct SegmentMean {
  const void* values = nullptr;      // [N < 2^31,columns]
  const int64_t* members = nullptr;  // [N']
  const int64_t* offsets = nullptr;  // [rows+1]
  void* out = nullptr;               // [rows,columns]
  int64_t rows = 0, columns = 0;
  int64_t out_stride = 0;  // from one row of `out` to the next, in numbers
};

/// stream is a cudaStream_t. Sums are fp32, in the order of the members: the same on every run. Throws
/// std::runtime_error where the launch fails.
void segment_mean_cuda(OperandType type, const SegmentMean& means, void* stream);

}  // namespace vggt
