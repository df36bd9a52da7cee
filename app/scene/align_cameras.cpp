#include "app/scene/align_cameras.h"

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include "app/scene/median.h"

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

/// What brings the centres nearest once the worlds are turned so.
Eigen::Affine3d turned_by(const Eigen::Matrix3d& rotation, const Centres& centres) {
  const Eigen::Matrix3Xd from_offsets = offsets(centres.result);
  const Eigen::Matrix3d covariance = offsets(centres.truth) * from_offsets.transpose();
  const double variance = from_offsets.squaredNorm();
  const double scale = variance > 0 ? (rotation.transpose() * covariance).trace() / variance : 1;
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  similarity.linear() = scale * rotation;
  similarity.translation() =
      centres.truth.rowwise().mean() - scale * (rotation * centres.result.rowwise().mean());
  return similarity;
}

/// Pairs of cameras to try: all, or so many by chance.
std::vector<std::pair<std::size_t, std::size_t>> trials(std::size_t count) {
  constexpr std::size_t kMost = 1000;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (count * (count - 1) / 2 <= kMost) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) pairs.emplace_back(i, j);
    }
    return pairs;
  }
  std::mt19937 random(1);  // whose numbers are the same everywhere
  while (pairs.size() < kMost) {
    const std::size_t i = random() % count, j = random() % count;
    if (i != j) pairs.emplace_back(i, j);
  }
  return pairs;
}

Eigen::Matrix3d turn_of(const Eigen::Affine3d& similarity) {
  return similarity.linear() / std::cbrt(similarity.linear().determinant());
}

/// How far a camera's rotation is off once its world is turned, radians.
double angle_after(const Eigen::Matrix3d& turn, const CameraPair& pair) {
  return Eigen::AngleAxisd(Eigen::Matrix3d(pair.truth.cam_from_world.linear() * turn *
                                           pair.result.cam_from_world.linear().transpose()))
      .angle();
}

/// How far each camera is off after a similarity: its centre, and its turn times `spread`, which tells wrong
/// similarities of cameras that stand in few places.
std::vector<double> errors_of(const std::vector<CameraPair>& cameras,
                              const Eigen::Affine3d& truth_from_result, double spread) {
  const Eigen::Matrix3d turn = turn_of(truth_from_result);
  std::vector<double> result;
  for (const CameraPair& pair : cameras) {
    const double error = (truth_from_result * pair.result.center() - pair.truth.center()).norm() +
                         spread * angle_after(turn, pair);
    result.push_back(std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
  }
  return result;
}

double median_of(std::vector<double> values) {
  return median(std::span(values));
}

/// The root mean square distance of points from their mean.
double spread_of(const Eigen::Matrix3Xd& points) {
  return offsets(points).norm() / std::sqrt(static_cast<double>(points.cols()));
}

/// The similarity by two cameras, not next to each other, that has the least median error.
Eigen::Affine3d best_of_two(const std::vector<CameraPair>& cameras, double nearest) {
  Eigen::Affine3d best = Eigen::Affine3d::Identity();
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [i, j] : trials(cameras.size())) {
    if ((cameras[i].result.center() - cameras[j].result.center()).norm() < nearest) continue;
    const Eigen::Affine3d tried = align({cameras[i], cameras[j]});
    if (!(tried.linear().determinant() > 0)) continue;
    const double apart = (cameras[i].truth.center() - cameras[j].truth.center()).norm();
    const double middle = median_of(errors_of(cameras, tried, apart));
    if (!(middle < least)) continue;
    least = middle;
    best = tried;
  }
  return best;
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

double spread_of(const Centres& centres) {
  const Eigen::Vector3d middle = centres.truth.rowwise().mean();
  return std::sqrt((centres.truth.colwise() - middle).colwise().squaredNorm().mean());
}

Eigen::Affine3d align(const std::vector<CameraPair>& cameras) {
  const Centres centres = centres_of(cameras);
  const Eigen::Matrix3d covariance = offsets(centres.truth) * offsets(centres.result).transpose();
  return turned_by(nearest_rotation(known_turn(covariance, cameras)), centres);
}

Eigen::Affine3d align_with_turns(const std::vector<CameraPair>& cameras) {
  constexpr std::size_t kFewest = 3;
  constexpr double kScattered = 0.3, kUsual = 0.05, kLeast = 1e-6;  // radians; of the centres' spread
  constexpr double kUsualCount = 2;                                 // observations that `usual` stands for
  // How much farther off the rotations alone may leave the centres, and so far always: of the spread, as of a
  // path that the network bent.
  constexpr double kContradiction = 3, kSlight = 0.02;
  const Eigen::Affine3d by_centres = align(cameras);
  if (cameras.size() < kFewest || !(by_centres.linear().determinant() > 0)) return by_centres;
  const Centres centres = centres_of(cameras);
  const auto count = static_cast<double>(cameras.size());
  const double spread = spread_of(centres.truth), off = rms_distance(centres, by_centres);
  const Eigen::Matrix3d mean = mean_turn(cameras), turn = nearest_rotation(mean);
  double squares = 0;
  for (const CameraPair& pair : cameras) squares += std::pow(angle_after(turn, pair), 2);
  // Standard deviations of a rotation about an axis and of a coordinate. Of few centres the alignment leaves
  // little that tells the second; then it is as the first.
  const double turned = std::max(kLeast, std::sqrt(squares / (3 * (count - 1)))),
               usual = std::min(turned, kUsual) * spread,
               moved = std::max(kLeast * spread, std::sqrt((count * off * off + kUsualCount * usual * usual) /
                                                           (3 * count - 7 + kUsualCount)));
  const Eigen::Affine3d so = turned_by(turn, centres);  // which mirrors where its scale is negative
  const double off_so = rms_distance(centres, so);
  if (!(turned < kScattered) || !(so.linear().determinant() > 0) ||
      !(off_so < kContradiction * std::max({off, turned * spread, kSlight * spread})))
    return by_centres;
  const Eigen::Matrix3d covariance = offsets(centres.truth) * offsets(centres.result).transpose();
  const double scale = std::cbrt(by_centres.linear().determinant());
  const Eigen::Affine3d found = turned_by(
      nearest_rotation(scale / (moved * moved) * covariance + count / (2 * turned * turned) * mean), centres);
  return found.linear().determinant() > 0 ? found : by_centres;
}

RobustAlignment align_robustly(const std::vector<CameraPair>& cameras) {
  constexpr std::size_t kFewest = 5, kRounds = 5;
  constexpr double kDeviation = 1.4826, kOutlier = 5;
  constexpr double kAlways = 1e-4, kNearest = 0.1;  // of the centres' spread
  const RobustAlignment all{align(cameras), std::vector<bool>(cameras.size(), true)};
  if (cameras.size() < kFewest) return all;
  RobustAlignment result = all;
  const Centres centres = centres_of(cameras);
  Eigen::Affine3d found = best_of_two(cameras, kNearest * spread_of(centres.result));
  for (std::size_t round = 0; round < kRounds; ++round) {
    const double spread = std::cbrt(found.linear().determinant()) * spread_of(centres.result);
    const std::vector<double> errors = errors_of(cameras, found, spread);
    const double most = std::max(kOutlier * kDeviation * median_of(errors), kAlways * spread);
    std::vector<CameraPair> fitting;
    std::vector<bool> fits;
    for (std::size_t i = 0; i < cameras.size(); ++i) {
      fits.push_back(errors[i] <= most);
      if (fits.back()) fitting.push_back(cameras[i]);
    }
    if (fitting.size() <= cameras.size() / 2) return all;  // no majority agrees
    found = align(fitting);
    if (round > 0 && fits == result.fits) break;
    result.fits = std::move(fits);
  }
  result.truth_from_result = found;
  return result;
}

double median_turn(const std::vector<CameraPair>& cameras, const Eigen::Affine3d& truth_from_result) {
  std::vector<double> angles;
  for (const CameraPair& pair : cameras) angles.push_back(angle_after(turn_of(truth_from_result), pair));
  return median_of(std::move(angles));
}

double rms_distance(const Centres& centres, const Eigen::Affine3d& truth_from_result) {
  const Eigen::Matrix3Xd aligned = (truth_from_result.linear() * centres.result).colwise() +
                                   Eigen::Vector3d(truth_from_result.translation());
  return std::sqrt((aligned - centres.truth).colwise().squaredNorm().mean());
}

}  // namespace vggt
