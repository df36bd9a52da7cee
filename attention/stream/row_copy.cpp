#include "attention/stream/row_copy.h"

#include <algorithm>

namespace vggt {

RowCopy plan_row_copy(std::vector<CopyDim> dims) {
  RowCopy copy;
  if (std::ranges::any_of(dims, [](const CopyDim& dim) { return dim.size == 0; })) return copy;
  std::erase_if(dims, [](const CopyDim& dim) { return dim.size == 1; });
  std::ranges::sort(dims, {}, &CopyDim::to);
  auto dim = dims.begin();
  copy.width = copy.rows = 1;
  for (; dim != dims.end() && dim->to == copy.width && dim->from == copy.width; ++dim)
    copy.width *= dim->size;
  copy.to_pitch = copy.from_pitch = copy.width;
  // cudaMemcpy2D takes no pitch below the width, which an expanded source has.
  if (dim != dims.end() && dim->to >= copy.width && dim->from >= copy.width) {
    copy.to_pitch = dim->to;
    copy.from_pitch = dim->from;
    const auto goes_on = [&] {
      return dim != dims.end() && dim->to == copy.rows * copy.to_pitch &&
             dim->from == copy.rows * copy.from_pitch;
    };
    for (; goes_on(); ++dim) copy.rows *= dim->size;
  }
  copy.groups = {{0, 0}};
  for (; dim != dims.end(); ++dim) {
    const auto first = copy.groups;
    for (int64_t i = 1; i < dim->size; ++i) {
      for (const auto& [to, from] : first) copy.groups.emplace_back(to + i * dim->to, from + i * dim->from);
    }
  }
  return copy;
}

}  // namespace vggt
