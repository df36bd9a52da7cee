#include "app/adjust/bundle_adjustment.h"

#include <Eigen/Cholesky>
#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "app/adjust/sighting_error.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

using Vector6d = Eigen::Matrix<double, 6, 1>;

constexpr int kIterations = 15, kTries = 5;
// Cauchy's scale in standard deviations. It falls from the first to the last value: at first even sightings
// that are far off count.
constexpr double kFirstScale = 4, kScaleFactor = 0.6, kLastScale = 1;
constexpr double kFirstDamping = 1e-4, kLeastDamping = 1e-7;
constexpr double kBehind = 10;  // what a sighting behind its camera costs, in squares of the scale
constexpr double kMostDepthStep = 0.3;
constexpr double kConverged = 1e-5;  // relative change of the cost

Eigen::Matrix3d rotation_by(const Eigen::Vector3d& w) {
  const double angle = w.norm();
  if (!(angle > 0)) return Eigen::Matrix3d::Identity();
  return Eigen::AngleAxisd(angle, w / angle).toRotationMatrix();
}

Eigen::Vector3d rotation_vector(const Eigen::Matrix3d& rotation) {
  const Eigen::AngleAxisd turn(rotation);
  return turn.angle() * turn.axis();
}

/// Sums over an anchor's sightings: products of its depth with its own camera, the focal length and itself.
struct AnchorSums {
  Vector6d camera = Vector6d::Zero();
  double focal = 0, hessian = 0, gradient = 0;
};

class Adjustment {
 public:
  Adjustment(Bundle& bundle, const BundlePriors& priors, const Events& events)
      : bundle_(bundle), given_(bundle), priors_(priors), events_(events) {
    for (const bool free : bundle.free) {
      offsets_.push_back(free ? unknowns_ : -1);
      if (free) unknowns_ += 6;
    }
    focal_offset_ = unknowns_++;
    first_.assign(bundle.anchors.size() + 1, 0);
    for (const Sighting& sighting : bundle.sightings) ++first_[static_cast<std::size_t>(sighting.anchor) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<double> depths;
    for (const Anchor& anchor : bundle.anchors) depths.push_back(std::exp(anchor.log_depth));
    translation_sigma_ = priors.translation * median(std::span(depths));
  }

  void run() {
    double damping = kFirstDamping;
    for (int i = 0; i < kIterations; ++i) {
      const double scale = std::max(kLastScale, kFirstScale * std::pow(kScaleFactor, i));
      const double before = cost(bundle_, scale);
      linearise(scale);
      double after = before;
      bool accepted = false;
      for (int attempt = 0; attempt < kTries && !accepted; ++attempt) {
        Bundle changed = step(damping);
        after = cost(changed, scale);
        accepted = after <= before;  // false where the cost is not a number
        if (accepted) bundle_ = std::move(changed);
        damping = accepted ? std::max(damping / 5, kLeastDamping) : damping * 10;
      }
      const bool settled = !accepted || before - after < kConverged * before;
      if (settled && scale <= kLastScale) return;
    }
  }

 private:
  double cost(const Bundle& bundle, double scale) const {
    double total = 0;
    for (const Sighting& sighting : bundle.sightings) {
      const SeenAnchor seen = see(bundle, sighting);
      const double square = scale * scale;
      total += square * (seen.in_front ? std::log1p(seen.error.squaredNorm() / square) : kBehind);
    }
    for (std::size_t i = 0; i < bundle.anchors.size(); ++i) total += std::pow(depth_pull(bundle, i), 2);
    for (std::size_t i = 0; i < bundle.cameras.size(); ++i) {
      const BundlePose camera(bundle.cameras[i]), given(given_.cameras[i]);
      total += rotation_vector(camera.rotation * given.rotation.transpose()).squaredNorm() /
               (priors_.rotation * priors_.rotation);
      total +=
          (camera.translation - given.translation).squaredNorm() / (translation_sigma_ * translation_sigma_);
    }
    return total + std::pow((bundle.log_focal - given_.log_focal) / priors_.log_focal, 2);
  }

  double depth_pull(const Bundle& bundle, std::size_t anchor) const {
    return (bundle.anchors[anchor].log_depth - given_.anchors[anchor].log_depth) / priors_.log_depth;
  }

  /// Adds rows' * rows to the lower triangle, where both cameras are free.
  template <class A, class B>
  void add_product(int row, int column, double weight, const A& a, const B& b) {
    if (row < 0 || column < 0) return;
    if (row < column) {
      hessian_.block<B::ColsAtCompileTime, A::ColsAtCompileTime>(column, row) += weight * b.transpose() * a;
    } else {
      hessian_.block<A::ColsAtCompileTime, B::ColsAtCompileTime>(row, column) += weight * a.transpose() * b;
    }
  }

  template <class A>
  void add_gradient(int row, double weight, const A& a, const Eigen::Vector2d& error) {
    if (row >= 0) gradient_.segment<A::ColsAtCompileTime>(row) += weight * a.transpose() * error;
  }

  void linearise(double scale) {
    hessian_.setZero(unknowns_, unknowns_);
    gradient_.setZero(unknowns_);
    sums_.assign(bundle_.anchors.size(), {});
    products_.assign(bundle_.sightings.size(), Vector6d::Zero());
    for (std::size_t i = 0; i < bundle_.sightings.size(); ++i) {
      const Sighting& sighting = bundle_.sightings[i];
      const SeenAnchor seen = see(bundle_, sighting);
      if (!seen.in_front) continue;
      const double weight = 1 / (1 + seen.error.squaredNorm() / (scale * scale));
      const auto to = static_cast<std::size_t>(sighting.frame),
                 anchor = static_cast<std::size_t>(sighting.anchor);
      const SightingSlopes by = slopes_of(seen);
      const int row = offsets_[to], own = offsets_[static_cast<std::size_t>(bundle_.anchors[anchor].frame)];
      add_product(row, row, weight, by.camera, by.camera);
      add_product(own, own, weight, by.anchor, by.anchor);
      add_product(row, own, weight, by.camera, by.anchor);
      add_product(focal_offset_, row, weight, by.focal, by.camera);
      add_product(focal_offset_, own, weight, by.focal, by.anchor);
      add_product(focal_offset_, focal_offset_, weight, by.focal, by.focal);
      add_gradient(row, weight, by.camera, seen.error);
      add_gradient(own, weight, by.anchor, seen.error);
      add_gradient(focal_offset_, weight, by.focal, seen.error);
      AnchorSums& sums = sums_[anchor];
      products_[i] = weight * by.camera.transpose() * by.depth;
      sums.camera += weight * by.anchor.transpose() * by.depth;
      sums.focal += weight * by.focal.dot(by.depth);
      sums.hessian += weight * by.depth.squaredNorm();
      sums.gradient += weight * by.depth.dot(seen.error);
    }
    add_priors();
  }

  void add_priors() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i].hessian += 1 / (priors_.log_depth * priors_.log_depth);
      sums_[i].gradient += depth_pull(bundle_, i) / priors_.log_depth;
    }
    const double turn = 1 / (priors_.rotation * priors_.rotation),
                 shift = 1 / (translation_sigma_ * translation_sigma_);
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] < 0) continue;
      const BundlePose camera(bundle_.cameras[i]), given(given_.cameras[i]);
      Eigen::Matrix<double, 3, 6> by;  // of the translation
      by << Eigen::Matrix3d::Identity(), -skew(camera.translation);
      auto block = hessian_.block<6, 6>(offsets_[i], offsets_[i]);
      auto slope = gradient_.segment<6>(offsets_[i]);
      block += shift * by.transpose() * by;
      slope += shift * by.transpose() * (camera.translation - given.translation);
      block.diagonal().tail<3>().array() += turn;
      slope.tail<3>() += turn * rotation_vector(camera.rotation * given.rotation.transpose());
    }
    const double zoom = 1 / (priors_.log_focal * priors_.log_focal);
    hessian_(focal_offset_, focal_offset_) += zoom;
    gradient_[focal_offset_] += zoom * (bundle_.log_focal - given_.log_focal);
  }

  /// Calls take(offset, product) for each free camera whose pose an anchor's depth depends on.
  template <class Take>
  void for_cameras(std::size_t anchor, Take&& take) const {
    const int own = offsets_[static_cast<std::size_t>(bundle_.anchors[anchor].frame)];
    if (own >= 0) take(own, sums_[anchor].camera);
    for (std::size_t i = first_[anchor]; i < first_[anchor + 1]; ++i) {
      const int row = offsets_[static_cast<std::size_t>(bundle_.sightings[i].frame)];
      if (row >= 0) take(row, products_[i]);
    }
  }

  Bundle step(double damping) const {
    events_.check_stop();
    Eigen::MatrixXd reduced = hessian_;
    Eigen::VectorXd right = gradient_;
    reduced.diagonal() *= 1 + damping;
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      if (first_[n] == first_[n + 1]) continue;
      const double inverse = 1 / (sums_[n].hessian * (1 + damping));
      for_cameras(n, [&](int row, const Vector6d& a) {
        const Vector6d scaled = inverse * a;
        right.segment<6>(row) -= sums_[n].gradient * scaled;
        reduced.block<1, 6>(focal_offset_, row) -= sums_[n].focal * scaled.transpose();
        for_cameras(n, [&](int column, const Vector6d& b) {
          if (column <= row) reduced.block<6, 6>(row, column) -= scaled * b.transpose();
        });
      });
      right[focal_offset_] -= inverse * sums_[n].gradient * sums_[n].focal;
      reduced(focal_offset_, focal_offset_) -= inverse * sums_[n].focal * sums_[n].focal;
    }
    const Eigen::VectorXd change = -reduced.selfadjointView<Eigen::Lower>().llt().solve(right);
    return changed(change, damping);
  }

  Bundle changed(const Eigen::VectorXd& change, double damping) const {
    Bundle result = bundle_;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] < 0) continue;
      const Vector6d own = change.segment<6>(offsets_[i]);
      const Eigen::Matrix3d turn = rotation_by(own.tail<3>());
      const BundlePose before(bundle_.cameras[i]);
      Eigen::Isometry3d& after = result.cameras[i].cam_from_world;
      after.linear() = turn * before.rotation;
      after.translation() = turn * before.translation + own.head<3>();
    }
    result.log_focal += change[focal_offset_];
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      double slope = sums_[n].gradient + sums_[n].focal * change[focal_offset_];
      for_cameras(n, [&](int row, const Vector6d& a) { slope += a.dot(change.segment<6>(row)); });
      const double moved = -slope / (sums_[n].hessian * (1 + damping));
      result.anchors[n].log_depth += std::clamp(moved, -kMostDepthStep, kMostDepthStep);
    }
    return result;
  }

  Bundle& bundle_;
  const Bundle given_;
  const BundlePriors priors_;
  const Events& events_;
  double translation_sigma_ = 0;
  int unknowns_ = 0, focal_offset_ = 0;
  std::vector<int> offsets_;        // of each camera's six unknowns; -1 for one that is not free
  std::vector<std::size_t> first_;  // index of each anchor's first sighting
  Eigen::MatrixXd hessian_;         // lower triangle, of poses and focal length
  Eigen::VectorXd gradient_;
  std::vector<AnchorSums> sums_;
  std::vector<Vector6d> products_;  // of each sighting: its camera with the anchor's depth
};

}  // namespace

void adjust_bundle(Bundle& bundle, const BundlePriors& priors, const Events& events) {
  if (!bundle.sightings.empty()) Adjustment(bundle, priors, events).run();
}

std::vector<double> depth_information(const Bundle& bundle) {
  std::vector<double> information(bundle.anchors.size(), 0);
  for (const Sighting& sighting : bundle.sightings) {
    const SeenAnchor seen = see(bundle, sighting);
    if (!seen.in_front) continue;
    const SightingSlopes by = slopes_of(seen);
    information[static_cast<std::size_t>(sighting.anchor)] +=
        by.depth.squaredNorm() / (1 + seen.error.squaredNorm());
  }
  return information;
}

}  // namespace vggt
