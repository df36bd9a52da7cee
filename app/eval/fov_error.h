#pragma once
#include <cstddef>
#include <vector>

namespace vggt {

/// A frame's horizontal fields of view.
struct FovPair {
  double result_rad = 0, truth_rad = 0;
};

/// How far fields of view are from the true ones, without sign.
struct FovError {
  std::size_t frames = 0;
  double median_deg = 0, largest_deg = 0;
};

/// The error over all frames, at least one.
FovError fov_error(const std::vector<FovPair>& frames);

}  // namespace vggt
