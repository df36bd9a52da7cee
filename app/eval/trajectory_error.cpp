#include "app/eval/trajectory_error.h"

#include <Eigen/SVD>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <stdexcept>

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

struct Centres {
  Eigen::Matrix3Xd result, truth;
};

Centres centres_of(const std::vector<CameraPair>& cameras) {
  const auto count = static_cast<Eigen::Index>(cameras.size());
  Centres centres{Eigen::Matrix3Xd(3, count), Eigen::Matrix3Xd(3, count)};
  for (Eigen::Index i = 0; i < count; ++i) {
    const CameraPair& pair = cameras[static_cast<std::size_t>(i)];
    centres.result.col(i) = pair.result.center();
    centres.truth.col(i) = pair.truth.center();
  }
  return centres;
}

/// The mean of the rotations from the result's world to the true one, which need not be a rotation.
Eigen::Matrix3d mean_turn(const std::vector<CameraPair>& cameras) {
  Eigen::Matrix3d sum = Eigen::Matrix3d::Zero();
  for (const CameraPair& pair : cameras) {
    sum += pair.truth.cam_from_world.linear().transpose() * pair.result.cam_from_world.linear();
  }
  return sum / static_cast<double>(cameras.size());
}

Eigen::Matrix3d nearest_rotation(const Eigen::Matrix3d& matrix) {
  const Eigen::JacobiSVD<Eigen::Matrix3d> svd(matrix, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const double sign = (svd.matrixU() * svd.matrixV().transpose()).determinant() < 0 ? -1 : 1;
  return svd.matrixU() * Eigen::Vector3d(1, 1, sign).asDiagonal() * svd.matrixV().transpose();
}

/// A matrix whose nearest rotation aligns the worlds: the covariance of the centres where these span a plane.
/// Centres on a line fix one direction, and the cameras' rotations fix what is across it; where all centres
/// are in one point, the rotations fix everything.
Eigen::Matrix3d known_turn(const Eigen::Matrix3d& covariance, const std::vector<CameraPair>& cameras) {
  const Eigen::JacobiSVD<Eigen::Matrix3d> svd(covariance, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const Eigen::Vector3d spread = svd.singularValues();
  constexpr double kLine = 1e-6;  // of variances: a thousandth of the length
  if (spread(1) > kLine * spread(0)) return covariance;
  if (!(spread(0) > 0)) return mean_turn(cameras);
  const Eigen::Vector3d to = svd.matrixU().col(0), from = svd.matrixV().col(0);
  const Eigen::Matrix3d across_to = Eigen::Matrix3d::Identity() - to * to.transpose();
  const Eigen::Matrix3d across_from = Eigen::Matrix3d::Identity() - from * from.transpose();
  return to * from.transpose() + across_to * mean_turn(cameras) * across_from;
}

/// The centres from their mean; zero where all are in one place. Throws where squares would overflow.
Eigen::Matrix3Xd offsets(const Eigen::Matrix3Xd& centres) {
  constexpr double kFarthest = 1e100;
  if (!(centres.norm() < kFarthest)) throw std::invalid_argument("poses: positions farther away than 1e100");
  Eigen::Matrix3Xd from_mean = centres.colwise() - Eigen::Vector3d(centres.rowwise().mean());
  if (from_mean.norm() <= kRounding * centres.norm()) from_mean.setZero();
  return from_mean;
}

double ate_rmse(const Centres& centres, const Eigen::Affine3d& truth_from_result) {
  const Eigen::Matrix3Xd aligned = (truth_from_result.linear() * centres.result).colwise() +
                                   Eigen::Vector3d(truth_from_result.translation());
  return std::sqrt((aligned - centres.truth).colwise().squaredNorm().mean());
}

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

Eigen::Affine3d align(const std::vector<CameraPair>& cameras) {
  const Centres centres = centres_of(cameras);
  const Eigen::Vector3d from = centres.result.rowwise().mean(), to = centres.truth.rowwise().mean();
  const Eigen::Matrix3Xd from_offsets = offsets(centres.result);
  const Eigen::Matrix3d covariance = offsets(centres.truth) * from_offsets.transpose();
  const Eigen::Matrix3d rotation = nearest_rotation(known_turn(covariance, cameras));
  const double variance = from_offsets.squaredNorm();
  const double scale = variance > 0 ? (rotation.transpose() * covariance).trace() / variance : 1;
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  similarity.linear() = scale * rotation;
  similarity.translation() = to - scale * (rotation * from);
  return similarity;
}

TrajectoryError trajectory_error(const std::vector<std::vector<CameraPair>>& scenes, const Events& events) {
  TrajectoryError error;
  error.scale = 0;
  AllPairs pairs;
  const auto count = static_cast<double>(scenes.size());
  for (const std::vector<CameraPair>& cameras : scenes) {
    const Eigen::Affine3d truth_from_result = align(cameras);
    error.scale += truth_from_result.linear().col(0).norm() / count;
    error.ate_rmse += ate_rmse(centres_of(cameras), truth_from_result) / count;
    pairs.add(pair_errors(cameras, events));
  }
  pairs.report(error);
  return error;
}

}  // namespace vggt
