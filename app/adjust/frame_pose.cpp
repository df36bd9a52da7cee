#include "app/adjust/frame_pose.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "app/adjust/sighting_error.h"

namespace vggt {
namespace {

constexpr int kSamples = 400, kSteps = 8, kFinalSteps = 10;
constexpr std::size_t kSampled = 4, kFewest = 12;  // sightings
constexpr double kFar = 12;                        // pixels: a sighting that is farther off does not agree
constexpr double kWorthRefining = 0.7, kClearlyMore = 1.1;  // of the agreement before

/// A point of the world and where the frame shows it.
struct Shown {
  Eigen::Vector3d point;
  Eigen::Vector2d pixel;
};

/// Poses of the frame, from where the points of others' anchors are seen in it.
struct Fit {
  const Lens& lens;
  std::span<const Shown> all;

  double error(const Eigen::Isometry3d& pose, const Shown& shown) const {
    const Eigen::Vector3d seen = pose * shown.point;
    if (!(seen.z() > 0)) return INFINITY;
    return (shown_at(lens, seen.hnormalized()) - shown.pixel).norm();
  }

  /// How many agree with a pose: each by 1 - (its distance / kFar)².
  double agreement(const Eigen::Isometry3d& pose) const {
    double sum = 0;
    for (const Shown& shown : all) sum += std::max(0.0, 1 - std::pow(error(pose, shown) / kFar, 2));
    return sum;
  }

  Eigen::Isometry3d robustly_fitted(const Eigen::Isometry3d& pose) const {
    return fitted(pose, all, kFinalSteps, kFar / 4);
  }

  /// Gauss-Newton steps from a pose to some sightings, with Cauchy's weights of this scale in pixels.
  Eigen::Isometry3d fitted(Eigen::Isometry3d pose, std::span<const Shown> chosen, int steps,
                           double scale) const {
    constexpr double kDamping = 1e-6, kSettled = 1e-7;
    for (int i = 0; i < steps; ++i) {
      Eigen::Matrix<double, 6, 6> normal = kDamping * Eigen::Matrix<double, 6, 6>::Identity();
      Eigen::Matrix<double, 6, 1> right = Eigen::Matrix<double, 6, 1>::Zero();
      for (const Shown& shown : chosen) {
        const Eigen::Vector3d seen = pose * shown.point;
        if (!(seen.z() > 0)) continue;
        const Eigen::Vector2d at = seen.hnormalized(), off = shown_at(lens, at) - shown.pixel;
        const Eigen::Matrix2d by_normal = lens.focal.asDiagonal() * distortion_slope(lens, at);
        const Eigen::Matrix<double, 2, 3> by_point = slopes_by_point(by_normal, at, seen.z());
        Eigen::Matrix<double, 2, 6> slope;
        slope << by_point, -by_point * skew(seen);
        const double weight = 1 / (1 + off.squaredNorm() / (scale * scale));
        normal += weight * slope.transpose() * slope;
        right -= weight * slope.transpose() * off;
      }
      const Eigen::Matrix<double, 6, 1> step = normal.ldlt().solve(right);
      if (!step.allFinite()) break;
      Eigen::Isometry3d move = Eigen::Isometry3d::Identity();
      move.linear() = rotation_by(step.tail<3>());
      move.translation() = step.head<3>();
      pose = move * pose;
      if (step.norm() < kSettled) break;
    }
    return pose;
  }
};

}  // namespace

bool find_pose_anew(Bundle& bundle, int frame) {
  const auto f = static_cast<std::size_t>(frame);
  std::vector<Shown> shown;
  for (const Sighting& sighting : bundle.sightings) {
    if (sighting.frame != frame) continue;
    const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(sighting.anchor)];
    shown.push_back({AnchorRay(bundle, anchor).in_world, sighting.pixel});
  }
  if (shown.size() < kFewest) return false;
  const Fit fit{bundle.lenses[static_cast<std::size_t>(bundle.lens_of[f])], shown};
  const Eigen::Isometry3d given = bundle.poses[f];
  const double now = std::max(fit.agreement(given), fit.agreement(fit.robustly_fitted(given)));
  Eigen::Isometry3d best = given;
  double most = now;
  std::mt19937 random(7);
  std::array<Shown, kSampled> sample;
  for (int i = 0; i < kSamples; ++i) {
    for (Shown& one : sample) one = shown[random() % shown.size()];
    const Eigen::Isometry3d pose = fit.fitted(given, sample, kSteps, INFINITY);
    if (!(fit.agreement(pose) > kWorthRefining * most)) continue;
    const Eigen::Isometry3d refined = fit.robustly_fitted(pose);
    const double agree = fit.agreement(refined);
    if (!(agree > most)) continue;
    most = agree;
    best = refined;
  }
  if (!(most > kClearlyMore * now)) return false;
  bundle.poses[f] = best;
  return true;
}

}  // namespace vggt
