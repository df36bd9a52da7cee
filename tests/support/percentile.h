#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vggt::test {

/// numpy.percentile's default, from its definition.
inline double percentile(std::vector<float> values, double percent) {
  std::ranges::sort(values);
  const double position = percent / 100 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(position));
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] +
         (static_cast<double>(values[high]) - values[low]) * (position - static_cast<double>(low));
}

}  // namespace vggt::test
