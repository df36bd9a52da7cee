#include "app/trajectory_error.h"

#include <fmt/format.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace vggt {
namespace {

using Pairs = std::vector<std::pair<Eigen::Matrix4d, Eigen::Matrix4d>>;  // world_from_cam: judged, true

double degrees(double radians) {
  return radians * 180 / std::numbers::pi;
}

double angle_between(const Eigen::Vector3d& a, const Eigen::Vector3d& b) {
  return degrees(std::atan2(a.cross(b).norm(), a.dot(b)));
}

std::vector<TumPose> sorted(std::vector<TumPose> poses) {
  std::ranges::stable_sort(poses, {}, &TumPose::time_s);
  return poses;
}

double match_tolerance(const std::vector<TumPose>& truth) {
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < truth.size(); ++i) {
    const double gap = truth[i].time_s - truth[i - 1].time_s;
    if (gap > 0) step = std::min(step, gap);
  }
  return std::isfinite(step) ? 0.01 * step : 1e-6;
}

Pairs match(const std::vector<TumPose>& poses, const std::vector<TumPose>& truth) {
  const double tolerance = match_tolerance(truth);
  Pairs pairs;
  for (const TumPose& pose : poses) {
    const auto next = std::ranges::lower_bound(truth, pose.time_s - tolerance, {}, &TumPose::time_s);
    if (next == truth.end() || next->time_s > pose.time_s + tolerance) continue;
    pairs.emplace_back(pose.world_from_cam, next->world_from_cam);
  }
  return pairs;
}

void align(const Pairs& pairs, TrajectoryError& error) {
  Eigen::Matrix3Xd from(3, pairs.size()), to(3, pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    from.col(static_cast<Eigen::Index>(i)) = pairs[i].first.topRightCorner<3, 1>();
    to.col(static_cast<Eigen::Index>(i)) = pairs[i].second.topRightCorner<3, 1>();
  }
  Eigen::Matrix4d similarity = Eigen::Matrix4d::Identity();
  const Eigen::Vector3d from_mean = from.rowwise().mean(), to_mean = to.rowwise().mean();
  if ((from.colwise() - from_mean).norm() > 0) {
    similarity = Eigen::umeyama(from, to, true);
  } else {  // all centres in one place: no scale and no rotation to find
    similarity.topRightCorner<3, 1>() = to_mean - from_mean;
  }
  const Eigen::Matrix3Xd aligned = (similarity.topLeftCorner<3, 3>() * from).colwise() +
                                   Eigen::Vector3d(similarity.topRightCorner<3, 1>());
  error.scale = similarity.topLeftCorner<3, 1>().norm();
  error.ate_rmse = std::sqrt((aligned - to).colwise().squaredNorm().mean());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double auc(const std::vector<double>& errors, int limit) {
  double sum =
      0;  // of the cumulative histogram's bins that an error counts in; the last bin is closed, as numpy's
  for (const double error : errors) {
    if (error < limit) sum += limit - std::floor(error);
    if (error == limit) sum += 1;
  }
  return sum / (static_cast<double>(errors.size()) * limit);
}

Eigen::Matrix4d relative(const Eigen::Matrix4d& world_from_a, const Eigen::Matrix4d& world_from_b) {
  return Eigen::Isometry3d(world_from_b).inverse().matrix() * world_from_a;
}

void compare_pairs(const Pairs& pairs, TrajectoryError& error) {
  std::vector<double> rotations, directions, larger;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = i + 1; j < pairs.size(); ++j) {
      const Eigen::Matrix4d judged = relative(pairs[i].first, pairs[j].first);
      const Eigen::Matrix4d truth = relative(pairs[i].second, pairs[j].second);
      const Eigen::Matrix3d turn = judged.topLeftCorner<3, 3>().transpose() * truth.topLeftCorner<3, 3>();
      const double rotation = degrees(Eigen::AngleAxisd(turn).angle());
      const double angle = angle_between(judged.topRightCorner<3, 1>(), truth.topRightCorner<3, 1>());
      const double direction = std::min(angle, 180 - angle);
      rotations.push_back(rotation);
      directions.push_back(direction);
      larger.push_back(std::max(rotation, direction));
    }
  }
  error.median_rotation = median(rotations);
  error.median_translation_direction = median(directions);
  error.auc_5 = auc(larger, 5);
  error.auc_15 = auc(larger, 15);
  error.auc_30 = auc(larger, 30);
}

}  // namespace

TrajectoryError trajectory_error(const std::vector<TumPose>& poses, const std::vector<TumPose>& truth) {
  const Pairs pairs = match(sorted(poses), sorted(truth));
  if (pairs.size() < 2) {
    throw std::invalid_argument("eval: only " + std::to_string(pairs.size()) + " of " +
                                std::to_string(poses.size()) + " poses have the time of one of the " +
                                std::to_string(truth.size()) + " true ones; 2 are needed");
  }
  TrajectoryError error;
  error.matched = static_cast<int>(pairs.size());
  error.poses = static_cast<int>(poses.size());
  error.truth = static_cast<int>(truth.size());
  align(pairs, error);
  compare_pairs(pairs, error);
  return error;
}

std::string to_text(const TrajectoryError& error) {
  return fmt::format(
      "poses matched                  {} of {} ({} true)\n"
      "ATE rmse after Sim(3)          {:.6g}\n"
      "scale of the Sim(3)            {:.6g}\n"
      "median rotation error          {:.3f} deg\n"
      "median translation direction   {:.3f} deg\n"
      "AUC@5 / @15 / @30              {:.4f} / {:.4f} / {:.4f}\n",
      error.matched, error.poses, error.truth, error.ate_rmse, error.scale, error.median_rotation,
      error.median_translation_direction, error.auc_5, error.auc_15, error.auc_30);
}

std::string to_json(const TrajectoryError& error) {
  const nlohmann::ordered_json json = {
      {"matched", error.matched},
      {"poses", error.poses},
      {"truth", error.truth},
      {"ate_rmse", error.ate_rmse},
      {"scale", error.scale},
      {"median_rotation_deg", error.median_rotation},
      {"median_translation_direction_deg", error.median_translation_direction},
      {"auc_5", error.auc_5},
      {"auc_15", error.auc_15},
      {"auc_30", error.auc_30}};
  return json.dump(2) + "\n";
}

}  // namespace vggt
