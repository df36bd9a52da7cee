#include "app/eval/fov_error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "app/scene/median.h"

namespace vggt {

FovError fov_error(const std::vector<FovPair>& frames) {
  std::vector<double> errors_deg;
  for (const FovPair& frame : frames)
    errors_deg.push_back(std::abs(frame.result_rad - frame.truth_rad) * 180 / std::numbers::pi);
  return {errors_deg.size(), median(std::span(errors_deg)), std::ranges::max(errors_deg)};
}

}  // namespace vggt
