#pragma once
#include <vector>

#include "attention/bench/contenders.h"

namespace vggt {

/// ||Y - Y64|| / ||Y64|| over sampled rows for each N. slope(): of the error's logarithm over that of N, by
/// least squares.
struct ErrorGrowth {
  std::vector<int64_t> lengths;
  std::vector<double> errors;
  double slope() const;
};
ErrorGrowth error_growth(const OurKernel& kernel, const std::vector<int64_t>& lengths, int64_t heads,
                         int64_t dim, at::ScalarType type, at::Device device);

/// Errors over sampled rows: of states over blocks of keys, merged by a tree, and of one call.
struct BlockwiseError {
  double blockwise = 0, global = 0;
};
BlockwiseError blockwise_error(const OurKernel& kernel, const AttentionInputs& x, const at::Tensor& rows);

}  // namespace vggt
