#include "app/eval/prediction_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>

#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class T>
double median_or_none(std::vector<T>& values) {
  return values.empty() ? kNone : median(std::span(values));
}

template <class T>
Spread spread_of(std::vector<T> values) {
  if (values.empty()) return {kNone, kNone, kNone};
  const auto tenth = static_cast<std::ptrdiff_t>(values.size() / 10);
  const double middle = median(std::span(values));
  std::ranges::nth_element(values, values.end() - 1 - tenth);
  const double ninety_percent = static_cast<double>(*(values.end() - 1 - tenth));
  return {middle, ninety_percent, static_cast<double>(*std::ranges::max_element(values))};
}

/// The root mean square distance of the true centres from their mean.
double extent(const std::vector<CameraPair>& cameras) {
  Eigen::Vector3d mean = Eigen::Vector3d::Zero();
  const auto count = static_cast<double>(cameras.size());
  for (const CameraPair& pair : cameras) mean += pair.truth.center() / count;
  double sum = 0;
  for (const CameraPair& pair : cameras) sum += (pair.truth.center() - mean).squaredNorm();
  return std::sqrt(sum / count);
}

CameraDifference camera_difference(const std::vector<Camera>& other, const std::vector<Camera>& exact,
                                   const Events& events) {
  std::vector<CameraPair> pairs;
  std::vector<double> fov_deg;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!other[i].valid || !exact[i].valid) continue;
    pairs.push_back({other[i], exact[i]});
    const std::optional<double> a = other[i].fov_x_rad(), b = exact[i].fov_x_rad();
    if (a && b) fov_deg.push_back(std::abs(*a - *b) * 180 / std::numbers::pi);
  }
  if (pairs.size() < 2) {
    throw std::invalid_argument(std::to_string(pairs.size()) + " of " + std::to_string(exact.size()) +
                                " frames have a camera on both sides; 2 are needed");
  }
  PairErrors errors = pair_errors(pairs, events);
  const TrajectoryError trajectory = trajectory_error({pairs}, events);
  return {pairs.size(),
          spread_of(std::move(errors.rotation)),
          spread_of(std::move(errors.translation_direction)),
          trajectory.auc,
          trajectory.ate_rmse / extent(pairs),
          spread_of(std::move(fov_deg))};
}

std::vector<float> all_values(const std::vector<std::vector<float>>& maps) {
  std::vector<float> values;
  for (const std::vector<float>& map : maps) values.insert(values.end(), map.begin(), map.end());
  return values;
}

double correlation_of_logarithms(const std::vector<std::vector<float>>& a,
                                 const std::vector<std::vector<float>>& b) {
  double count = 0, mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
  for (std::size_t frame = 0; frame < a.size(); ++frame) {
    for (std::size_t i = 0; i < a[frame].size(); ++i) {
      const double x = std::log(static_cast<double>(a[frame][i])),
                   y = std::log(static_cast<double>(b[frame][i]));
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      // Welford's update: the sums of squares stay those from the mean.
      ++count;
      const double from_a = x - mean_a, from_b = y - mean_b;
      mean_a += from_a / count;
      mean_b += from_b / count;
      aa += from_a * (x - mean_a);
      bb += from_b * (y - mean_b);
      ab += from_a * (y - mean_b);
    }
  }
  return ab / std::sqrt(aa * bb);
}

bool is_depth(float value) {
  return std::isfinite(value) && value > 0;
}

/// Depths of the confident pixels, side by side.
struct Depths {
  std::vector<float> other, exact;
};

Depths confident_depths(const Predictions& other, const Predictions& exact, double threshold) {
  Depths depths;
  for (std::size_t frame = 0; frame < exact.depth.size(); ++frame) {
    for (std::size_t i = 0; i < exact.depth[frame].size(); ++i) {
      const float a = other.depth[frame][i], b = exact.depth[frame][i];
      if (!(exact.confidence[frame][i] >= threshold) || !is_depth(a) || !is_depth(b)) continue;
      depths.other.push_back(a);
      depths.exact.push_back(b);
    }
  }
  return depths;
}

DepthDifference depth_difference(const Predictions& other, const Predictions& exact, const Events& events) {
  DepthDifference difference;
  std::vector<float> values = all_values(exact.confidence);
  difference.exact_confidence = median_or_none(values);
  values = all_values(other.confidence);
  difference.other_confidence = median_or_none(values);
  events.check_stop();
  difference.confidence_correlation = correlation_of_logarithms(other.confidence, exact.confidence);
  events.check_stop();
  const Depths depths = confident_depths(other, exact, difference.exact_confidence);
  difference.pixels = depths.exact.size();
  values.resize(depths.exact.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = depths.exact[i] / depths.other[i];
  difference.scale = median_or_none(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double truth = depths.exact[i], scaled = difference.scale * static_cast<double>(depths.other[i]);
    values[i] = static_cast<float>(std::abs(scaled - truth) / truth);
  }
  difference.relative = spread_of(std::move(values));
  return difference;
}

void check_sides(const Predictions& other, const Predictions& exact) {
  const auto sizes = [](const std::vector<std::vector<float>>& maps) {
    std::vector<std::size_t> sizes;
    for (const std::vector<float>& map : maps) sizes.push_back(map.size());
    return sizes;
  };
  const std::vector<std::size_t> expected = sizes(exact.depth);
  if (other.cameras.size() != exact.cameras.size() || sizes(other.depth) != expected ||
      sizes(other.confidence) != expected || sizes(exact.confidence) != expected) {
    throw std::invalid_argument("the two sides differ in frames or pixels");
  }
}

}  // namespace

PredictionDifference difference(const Predictions& other, const Predictions& exact, const Events& events) {
  check_sides(other, exact);
  PredictionDifference result;
  result.cameras = camera_difference(other.cameras, exact.cameras, events);
  if (!exact.depth.empty()) result.depth = depth_difference(other, exact, events);
  return result;
}

}  // namespace vggt
