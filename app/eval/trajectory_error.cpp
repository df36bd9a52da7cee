#include "app/eval/trajectory_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "app/scene/median.h"

namespace vggt {
namespace {

double degrees(double radians) {
  return radians * 180 / std::numbers::pi;
}

/// How many errors lie in each degree. As in numpy's histograms, the last bin of one that ends at `limit`
/// also holds the errors that are `limit`.
class DegreeHistogram {
 public:
  void add(double error) {
    ++count_;
    if (!(error <= 30)) return;
    ++bins_[static_cast<std::size_t>(std::floor(error))];
    if (error == std::floor(error)) ++whole_[static_cast<std::size_t>(error)];
  }

  Auc auc() const { return {area(5), area(15), area(30)}; }

 private:
  double area(std::size_t limit) const {
    double sum = static_cast<double>(whole_[limit]);
    for (std::size_t i = 0; i < limit; ++i)
      sum += static_cast<double>(bins_[i]) * static_cast<double>(limit - i);
    return sum / (static_cast<double>(count_) * static_cast<double>(limit));
  }

  std::array<std::size_t, 31> bins_{}, whole_{};
  std::size_t count_ = 0;
};

/// Distances below this share of the coordinates come from rounding.
constexpr double kRounding = 1e-12;

/// a_from_b; no translation at all where both cameras stand in one place.
Eigen::Isometry3d relative(const Camera& a, const Camera& b) {
  Eigen::Isometry3d a_from_b = a.cam_from_world * b.cam_from_world.inverse();
  const Eigen::Vector3d at_a = a.center(), at_b = b.center();
  if ((at_b - at_a).norm() <= kRounding * at_a.norm()) a_from_b.translation().setZero();
  return a_from_b;
}

double direction_error(const Eigen::Vector3d& result, const Eigen::Vector3d& truth) {
  if (truth.norm() == 0) return 0;
  if (result.norm() == 0) return 90;
  return degrees(std::atan2(result.cross(truth).norm(), result.dot(truth)));
}

/// The pairs of frames of all scenes together.
class AllPairs {
 public:
  void add(const PairErrors& scene) {
    rotations_.insert(rotations_.end(), scene.rotation.begin(), scene.rotation.end());
    directions_.insert(directions_.end(), scene.translation_direction.begin(),
                       scene.translation_direction.end());
    for (std::size_t i = 0; i < scene.rotation.size(); ++i) {
      const double rotation = scene.rotation[i], direction = scene.translation_direction[i];
      signed_.add(std::max(rotation, direction));
      either_sign_.add(std::max(rotation, std::min(direction, 180 - direction)));
    }
  }

  void report(TrajectoryError& error) {
    error.median_rotation = median(std::span(rotations_));
    error.median_translation_direction = median(std::span(directions_));
    error.auc = signed_.auc();
    error.auc_either_sign = either_sign_.auc();
  }

 private:
  std::vector<double> rotations_, directions_;
  DegreeHistogram signed_, either_sign_;
};

}  // namespace

PairErrors pair_errors(const std::vector<CameraPair>& cameras, const Events& events) {
  PairErrors errors;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    events.check_stop();
    for (std::size_t j = i + 1; j < cameras.size(); ++j) {
      const Eigen::Isometry3d result = relative(cameras[i].result, cameras[j].result),
                              truth = relative(cameras[i].truth, cameras[j].truth);
      const Eigen::Matrix3d turn = result.linear().transpose() * truth.linear();
      errors.rotation.push_back(degrees(Eigen::AngleAxisd(turn).angle()));
      errors.translation_direction.push_back(direction_error(result.translation(), truth.translation()));
    }
  }
  return errors;
}

bool truth_stands_still(const std::vector<CameraPair>& cameras) {
  return std::ranges::all_of(cameras, [&](const CameraPair& camera) {
    return relative(cameras.front().truth, camera.truth).translation().norm() == 0;
  });
}

TrajectoryError trajectory_error(const std::vector<std::vector<CameraPair>>& scenes, const Events& events) {
  TrajectoryError error;
  error.scale = 0;
  AllPairs pairs;
  const auto count = static_cast<double>(scenes.size());
  for (const std::vector<CameraPair>& cameras : scenes) {
    const Eigen::Affine3d truth_from_result = align(cameras);
    error.scale += truth_from_result.linear().col(0).norm() / count;
    error.ate_rmse += rms_distance(centres_of(cameras), truth_from_result) / count;
    pairs.add(pair_errors(cameras, events));
  }
  pairs.report(error);
  return error;
}

}  // namespace vggt
