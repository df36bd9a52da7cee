#include "app/eval/cloud_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "io/scene/point_filters.h"

namespace vggt {
namespace {

/// Coordinates beyond this have distances whose squares overflow, and the search finds nothing.
constexpr double kFarthest = 1e100;

void check(const std::vector<Eigen::Vector3d>& points, const char* side) {
  if (points.empty()) throw std::invalid_argument(fmt::format("cloud: the {} has no points", side));
  const auto near = [](const Eigen::Vector3d& point) { return point.cwiseAbs().maxCoeff() < kFarthest; };
  if (!std::ranges::all_of(points, near)) {
    throw std::invalid_argument(
        fmt::format("cloud: the {} has points that are not finite, or farther away than 1e100", side));
  }
}

double diagonal(const std::vector<Eigen::Vector3d>& points) {
  Eigen::Vector3d low = points.front(), high = points.front();
  for (const Eigen::Vector3d& point : points) {
    low = low.cwiseMin(point);
    high = high.cwiseMax(point);
  }
  return (high - low).norm();
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double share_below(const std::vector<double>& values, double limit) {
  const auto count = std::ranges::count_if(values, [limit](double value) { return value < limit; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

}  // namespace

CloudError cloud_error(const std::vector<Eigen::Vector3d>& result, const std::vector<Eigen::Vector3d>& truth,
                       std::optional<double> threshold) {
  check(result, "result");
  check(truth, "truth");
  CloudError error;
  error.threshold = threshold.value_or(0.01 * diagonal(truth));
  if (!(error.threshold > 0))
    throw std::invalid_argument("cloud: the true points are all one; give --threshold");
  const std::vector<double> to_truth = nearest_distances(result, truth);
  const std::vector<double> to_result = nearest_distances(truth, result);
  error.accuracy = mean(to_truth);
  error.completeness = mean(to_result);
  error.chamfer = (error.accuracy + error.completeness) / 2;
  error.precision = share_below(to_truth, error.threshold);
  error.recall = share_below(to_result, error.threshold);
  const double sum = error.precision + error.recall;
  error.f_score = sum > 0 ? 2 * error.precision * error.recall / sum : 0;
  return error;
}

}  // namespace vggt
