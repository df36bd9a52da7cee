#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

namespace vggt {

/// The middle one of at least one value, or the mean of the two in the middle. The values lose their order.
template <class T>
double median(std::span<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return static_cast<double>(*middle);
  return (static_cast<double>(*middle) + static_cast<double>(*std::max_element(values.begin(), middle))) / 2;
}

}  // namespace vggt
