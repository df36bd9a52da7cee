#include "app/scene/align_cameras.h"

#include <Eigen/SVD>
#include <cmath>
#include <cstddef>
#include <stdexcept>

namespace vggt {
namespace {

/// Distances below this share of the coordinates come from rounding.
constexpr double kRounding = 1e-12;

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

}  // namespace

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

double rms_distance(const Centres& centres, const Eigen::Affine3d& truth_from_result) {
  const Eigen::Matrix3Xd aligned = (truth_from_result.linear() * centres.result).colwise() +
                                   Eigen::Vector3d(truth_from_result.translation());
  return std::sqrt((aligned - centres.truth).colwise().squaredNorm().mean());
}

}  // namespace vggt
