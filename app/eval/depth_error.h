#pragma once
#include <vector>

#include "io/scene/depth_files.h"

namespace vggt {

/// A frame's depth, and the true one.
struct DepthPair {
  const DepthMap* result = nullptr;
  const DepthMap* truth = nullptr;
};

/// How far the depth of one scene is from the true one, over all pixels for which both sides have a value.
struct DepthError {
  double abs_rel = 0;   // mean of |scale·result - truth| / truth
  double delta_1 = 0;   // share of pixels with max(scale·result/truth, truth/(scale·result)) < 1.25
  double scale = 1;     // median of the truth / median of the result
  double coverage = 0;  // share of the true values for which the result has one
};

/// True values outside of (0, max_depth) do not count. Where sizes differ, the truth is sampled at the
/// centres of the result's pixels. Throws std::invalid_argument naming the frame for shapes that no resizing
/// explains and for results that are negative or not finite, and without a name if no pixel can be compared.
DepthError depth_error(const std::vector<DepthPair>& frames, double max_depth);

}  // namespace vggt
