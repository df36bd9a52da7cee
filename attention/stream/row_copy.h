#pragma once
// How a strided tensor is copied in few pieces: rows of equal length at a fixed distance, as cudaMemcpy2D
// takes them. Without torch.

#include <cstdint>
#include <utility>
#include <vector>

namespace vggt {

/// One dimension: its size, and the steps of target and source in elements.
struct CopyDim {
  int64_t size = 0, to = 0, from = 0;
};

/// Groups of `rows` rows of `width` elements, which lie `to_pitch` and `from_pitch` elements apart.
struct RowCopy {
  int64_t width = 0, rows = 0, to_pitch = 0, from_pitch = 0;
  std::vector<std::pair<int64_t, int64_t>> groups;  // where each begins, in the target and in the source
};

/// The pieces of a copy between tensors of these dimensions, in any order. The target is dense.
RowCopy plan_row_copy(std::vector<CopyDim> dims);

}  // namespace vggt
