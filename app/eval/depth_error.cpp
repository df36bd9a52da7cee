#include "app/eval/depth_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "app/scene/median.h"
#include "io/files/text.h"

namespace vggt {
namespace {

std::string frame_name(const DepthPair& frame, std::size_t position) {
  const std::string& name = frame.result->name.empty() ? frame.truth->name : frame.result->name;
  return "depth of frame " + (name.empty() ? std::to_string(position) : "'" + printable(name) + "'");
}

/// Frames are resized to multiples of the patch: each side may be off by half a patch, no more.
void check_shape(const DepthPair& frame, const std::string& name) {
  constexpr double kHalfPatch = 7.5;
  const DepthMap &a = *frame.result, &b = *frame.truth;
  const double expected_height = static_cast<double>(a.width) * b.height / b.width;
  const double expected_width = static_cast<double>(a.height) * b.width / b.height;
  const bool fits =
      std::min(std::abs(a.height - expected_height), std::abs(a.width - expected_width)) <= kHalfPatch;
  if (!fits) {
    throw std::invalid_argument(fmt::format("{}: {}×{} is not a resized {}×{}: cropped or padded?", name,
                                            a.width, a.height, b.width, b.height));
  }
}

/// The values that can be compared, side by side.
struct Values {
  std::vector<float> result, truth;
  std::size_t true_values = 0;
};

void collect(const DepthPair& frame, const std::string& name, double max_depth, Values& values) {
  check_shape(frame, name);
  const DepthMap &a = *frame.result, &b = *frame.truth;
  for (int y = 0; y < a.height; ++y) {
    const auto row = static_cast<int64_t>((2 * int64_t{y} + 1) * b.height / (2 * a.height));
    for (int x = 0; x < a.width; ++x) {
      const auto column = static_cast<int64_t>((2 * int64_t{x} + 1) * b.width / (2 * a.width));
      const float truth = b.values[static_cast<std::size_t>(row * b.width + column)];
      const float result = a.values[static_cast<std::size_t>(int64_t{y} * a.width + x)];
      if (!std::isfinite(result) || result < 0) {
        throw std::invalid_argument(fmt::format("{}: holds {} at ({}, {})", name, result, x, y));
      }
      if (!(truth > 0 && truth < max_depth)) continue;
      ++values.true_values;
      if (result == 0) continue;
      values.result.push_back(result);
      values.truth.push_back(truth);
    }
  }
}

double median_of(std::vector<float> values) {
  return median(std::span(values));
}

}  // namespace

DepthError depth_error(const std::vector<DepthPair>& frames, double max_depth) {
  Values values;
  for (std::size_t i = 0; i < frames.size(); ++i)
    collect(frames[i], frame_name(frames[i], i), max_depth, values);
  if (values.truth.empty()) {
    throw std::invalid_argument(
        fmt::format("depth: no pixel has both a result and a true value in (0, {})", max_depth));
  }
  DepthError error;
  error.scale = median_of(values.truth) / median_of(values.result);
  double relative = 0, near = 0;
  for (std::size_t i = 0; i < values.truth.size(); ++i) {
    const double truth = values.truth[i], result = error.scale * static_cast<double>(values.result[i]);
    relative += std::abs(result - truth) / truth;
    near += std::max(result / truth, truth / result) < 1.25 ? 1 : 0;
  }
  const auto count = static_cast<double>(values.truth.size());
  error.abs_rel = relative / count;
  error.delta_1 = near / count;
  error.coverage = count / static_cast<double>(values.true_values);
  return error;
}

}  // namespace vggt
