#include "app/adjust/bundle_adjustment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <opencv2/core/utility.hpp>
#include <optional>
#include <span>
#include <utility>

#include "app/adjust/sighting_error.h"
#include "app/adjust/tiled_matrix.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

using Vector6d = Eigen::Matrix<double, 6, 1>;

constexpr int kTries = 5;
constexpr double kScaleFactor = 0.6, kLastScale = 1.1;
constexpr double kFirstDamping = 1e-4, kLeastDamping = 1e-7;
constexpr double kBehind = 10;  // what a sighting behind its camera costs, in squares of the scale
constexpr double kMostDepthStep = 0.3;
constexpr double kMostProduct = 1e100;  // of which the logarithm is taken
// Parts of the anchors, of which as many as fit are summed up one beside the other, then added in order.
constexpr std::size_t kFewestParts = 2, kMostParts = 16, kPartBytes = std::size_t{128} << 20;

std::size_t parts_of(std::size_t matrix_bytes) {
  return std::clamp(kPartBytes / matrix_bytes, kFewestParts, kMostParts);
}

Eigen::Vector3d rotation_vector(const Eigen::Matrix3d& rotation) {
  const Eigen::AngleAxisd turn(rotation);
  return turn.angle() * turn.axis();
}

/// Focal length, aspect, k1 and k2 as they are adjusted: the first two are logarithms.
Eigen::Vector4d numbers_of(const Lens& lens) {
  return {std::log(lens.focal.x()), std::log(lens.focal.y() / lens.focal.x()), lens.distortion[0],
          lens.distortion[1]};
}

Lens changed_by(Lens lens, const Eigen::Vector4d& change) {
  lens.focal *= std::exp(change[0]);
  lens.focal.y() *= std::exp(change[1]);
  lens.distortion += change.tail<2>();
  return lens;
}

/// Sums over an anchor's sightings: products of its depth with its own camera, its own lens and itself.
struct AnchorSums {
  Vector6d camera = Vector6d::Zero(), lens = Vector6d::Zero();
  double hessian = 0, gradient = 0;
};

/// Products of an anchor's depth with the camera and the lens of a sighting, where that is another lens.
struct SightingProducts {
  Vector6d camera = Vector6d::Zero(), lens = Vector6d::Zero();
};

/// Where the product of an anchor's depth with a node is: that of its own camera, its own lens, or 2·i and
/// 2·i + 1 for camera and lens of the sighting i.
constexpr int kOwnCamera = -1, kOwnLens = -2;
struct AnchorOfNode {
  int anchor, place;
};

/// The normal equations of poses and lenses; each is a node of six unknowns, of which lenses use four.
struct Equations {
  explicit Equations(TiledMatrix empty)
      : hessian(std::move(empty)), gradient(Eigen::VectorXd::Zero(hessian.rows())) {}

  void set_zero() {
    hessian.set_zero();
    gradient.setZero();
  }
  void add(std::span<const Equations> parts) {
    std::vector<const TiledMatrix*> hessians;
    for (const Equations& part : parts) {
      hessians.push_back(&part.hessian);
      gradient += part.gradient;
    }
    hessian.add(hessians);
  }

  template <class A, class B>
  void add_product(int row, int column, double weight, const A& a, const B& b) {
    if (row < 0 || column < 0) return;
    if (row < column) return add_product(column, row, weight, b, a);
    hessian.block(row, column).template topLeftCorner<A::ColsAtCompileTime, B::ColsAtCompileTime>() +=
        weight * a.transpose() * b;
  }
  template <class A>
  void add_gradient(int node, double weight, const A& a, const Eigen::Vector2d& error) {
    if (node >= 0)
      gradient.segment<A::ColsAtCompileTime>(TiledMatrix::kBlock * node) += weight * a.transpose() * error;
  }

  TiledMatrix hessian;
  Eigen::VectorXd gradient;
};

/// What a step changes.
struct Values {
  std::vector<Eigen::Isometry3d> poses;
  std::vector<Lens> lenses;
  std::vector<Anchor> anchors;

  void put_back(Bundle& bundle) const {
    bundle.poses = poses;
    bundle.lenses = lenses;
    bundle.anchors = anchors;
  }
};

class Adjustment {
 public:
  Adjustment(Bundle& bundle, const Bundle& given, const BundlePriors& priors, std::size_t most_bytes,
             const Events& events)
      : bundle_(bundle), given_{given.poses, given.lenses, given.anchors}, priors_(priors), events_(events) {
    for (const bool free : bundle.free) nodes_.push_back(free ? node_count_++ : -1);
    first_lens_ = node_count_;
    node_count_ += static_cast<int>(bundle.lenses.size());
    first_.assign(bundle.anchors.size() + 1, 0);
    for (const Sighting& sighting : bundle.sightings) ++first_[static_cast<std::size_t>(sighting.anchor) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<double> depths;
    for (const Anchor& anchor : given.anchors) depths.push_back(std::exp(anchor.log_depth));
    translation_sigma_ = priors.translation * median(std::span(depths));
    const Eigen::Vector4d sigma(priors.log_focal, priors.log_aspect, priors.k1, priors.k2);
    lens_trust_ = sigma.cwiseAbs2().cwiseInverse();
    for (const LensFreedom& free : bundle.lens_free)
      lens_masks_.emplace_back(free.focal, free.aspect, free.k1, free.k2);
    normal_.emplace(empty_matrix());
    note_anchors();
    part_count_ = parts_of(normal_->hessian.bytes());
    parts_.assign(std::min(part_count_, fitting_parts(most_bytes)), *normal_);
  }

  void run(const BundleSchedule& schedule) {
    double damping = kFirstDamping;
    for (int i = 0; i < schedule.iterations; ++i) {
      const double scale = std::max(kLastScale, schedule.first_scale * std::pow(kScaleFactor, i));
      const double before = cost(scale);
      linearise(scale);
      double after = before;
      bool accepted = false;
      for (int attempt = 0; attempt < kTries && !accepted; ++attempt) {
        const Values kept{bundle_.poses, bundle_.lenses, bundle_.anchors};
        after = step(damping) ? cost(scale) : std::numeric_limits<double>::infinity();
        accepted = after <= before;  // false where the cost is not a number
        if (!accepted) kept.put_back(bundle_);
        damping = accepted ? std::max(damping / 5, kLeastDamping) : damping * 10;
      }
      const bool settled = !accepted || before - after < schedule.converged * before;
      if (settled && scale <= kLastScale) return;
    }
  }

  std::vector<double> focal_deviations(std::size_t most_lenses) {
    linearise(kLastScale);
    std::vector<double> deviations(std::min(bundle_.lenses.size(), most_lenses),
                                   std::numeric_limits<double>::quiet_NaN());
    if (!reduce(0)) return deviations;
    for (std::size_t i = 0; i < deviations.size(); ++i) {
      deviations[i] = 0;
      for (const int number : {0, 1}) {  // focal length, aspect
        if (lens_masks_[i][number] == 0) continue;
        const int place = TiledMatrix::kBlock * (first_lens_ + static_cast<int>(i)) + number;
        const Eigen::VectorXd column =
            parts_[0].hessian.solve(Eigen::VectorXd::Unit(parts_[0].hessian.rows(), place));
        deviations[i] = std::max(deviations[i], std::sqrt(column[place]));
      }
    }
    return deviations;
  }

 private:
  /// How many parts are within most_bytes at a time. Throws TooManyEquations where not even one is.
  std::size_t fitting_parts(std::size_t most_bytes) const {
    // Anchors are held once more as they were given, and as they were before a step.
    const std::size_t matrix = normal_->hessian.bytes(), fill = normal_->hessian.factor_bytes() - matrix,
                      beside = matrix + fill + bundle_.sightings.size() * sizeof(SightingProducts) +
                               bundle_.anchors.size() * (sizeof(AnchorSums) + 2 * sizeof(Anchor)) +
                               of_nodes_.size() * sizeof(AnchorOfNode);
    const std::size_t fitting = (most_bytes - std::min(most_bytes, beside)) / matrix;
    if (fitting == 0) throw TooManyEquations();
    return fitting;
  }

  int lens_index(int frame) const { return bundle_.lens_of[static_cast<std::size_t>(frame)]; }
  int frame_node(int frame) const { return nodes_[static_cast<std::size_t>(frame)]; }
  int lens_node(int frame) const { return first_lens_ + lens_index(frame); }

  /// Calls body(part, first anchor, end) for some of so many parts with about as many sightings each, on
  /// several threads.
  template <class Body>
  void for_parts(std::size_t parts, cv::Range some, const Body& body) const {
    const std::size_t anchors = first_.size() - 1, all = first_.back();
    cv::parallel_for_(some, [&](const cv::Range& range) {
      for (auto part = static_cast<std::size_t>(range.start); part < static_cast<std::size_t>(range.end);
           ++part) {
        const auto at = [&](std::size_t p) {
          if (p == parts) return anchors;
          return std::min<std::size_t>(
              static_cast<std::size_t>(std::ranges::lower_bound(first_, all * p / parts) - first_.begin()),
              anchors);
        };
        body(part, at(part), at(part + 1));
      }
    });
  }
  template <class Body>
  void for_all_parts(std::size_t parts, const Body& body) const {
    for_parts(parts, {0, static_cast<int>(parts)}, body);
  }

  /// The matrix with the tiles that nodes of common anchors need.
  TiledMatrix empty_matrix() const {
    TiledMatrix matrix(node_count_);
    std::vector<int> of_anchor;
    for (std::size_t n = 0; n < bundle_.anchors.size(); ++n) {
      if (first_[n] == first_[n + 1]) continue;
      of_anchor.clear();
      for_nodes(n, [&](int node, int) { of_anchor.push_back(node / TiledMatrix::kTile); });
      std::ranges::sort(of_anchor);
      const auto repeated = std::ranges::unique(of_anchor);
      of_anchor.erase(repeated.begin(), repeated.end());
      for (const int row : of_anchor) {
        for (const int column : of_anchor) {
          if (column <= row) matrix.make(row * TiledMatrix::kTile, column * TiledMatrix::kTile);
        }
      }
    }
    return matrix;
  }

  /// Notes the anchors of each node, in their order.
  void note_anchors() {
    first_of_node_.assign(static_cast<std::size_t>(node_count_) + 1, 0);
    const auto for_all = [&](auto&& take) {
      for (std::size_t n = 0; n < bundle_.anchors.size(); ++n) {
        if (first_[n] == first_[n + 1]) continue;
        for_nodes(n, [&](int node, int place) { take(n, static_cast<std::size_t>(node), place); });
      }
    };
    for_all([&](std::size_t, std::size_t node, int) { ++first_of_node_[node + 1]; });
    std::partial_sum(first_of_node_.begin(), first_of_node_.end(), first_of_node_.begin());
    of_nodes_.resize(first_of_node_.back());
    std::vector<std::size_t> next = first_of_node_;
    for_all([&](std::size_t n, std::size_t node, int place) {
      of_nodes_[next[node]++] = {static_cast<int>(n), place};
    });
  }

  double cost(double scale) const {
    std::array<double, kMostParts> sums{};
    const double square = scale * scale;
    for_all_parts(kMostParts, [&](std::size_t part, std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) {
        sums[part] += std::pow(depth_pull(n), 2);
        if (first_[n] == first_[n + 1]) continue;
        const AnchorRay ray(bundle_, bundle_.anchors[n]);
        double product = 1;  // its logarithm is the sum of the sightings'
        for (std::size_t i = first_[n]; i < first_[n + 1]; ++i) {
          const SeenAnchor seen = see(bundle_, ray, bundle_.sightings[i]);
          if (!seen.in_front) {
            sums[part] += square * kBehind;
            continue;
          }
          product *= 1 + seen.error.squaredNorm() / square;
          if (!(product < kMostProduct)) {
            sums[part] += square * std::log(product);
            product = 1;
          }
        }
        sums[part] += square * std::log(product);
      }
    });
    double total = 0;
    for (const double sum : sums) total += sum;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] < 0) continue;
      const Eigen::Isometry3d &pose = bundle_.poses[i], &given = given_.poses[i];
      total += rotation_vector(pose.linear() * given.linear().transpose()).squaredNorm() /
               (priors_.rotation * priors_.rotation);
      total += (pose.translation() - given.translation()).squaredNorm() /
               (translation_sigma_ * translation_sigma_);
    }
    for (std::size_t i = 0; i < bundle_.lenses.size(); ++i)
      total += lens_pull(i).cwiseAbs2().cwiseProduct(lens_masks_[i]).dot(lens_trust_);
    return total;
  }

  double depth_pull(std::size_t anchor) const {
    return (bundle_.anchors[anchor].log_depth - given_.anchors[anchor].log_depth) / priors_.log_depth;
  }
  Eigen::Vector4d lens_pull(std::size_t lens) const {
    return numbers_of(bundle_.lenses[lens]) - numbers_of(given_.lenses[lens]);
  }

  void linearise(double scale) {
    sums_.resize(bundle_.anchors.size());
    products_.resize(bundle_.sightings.size());
    parts_[0] = *normal_;  // without the tiles that a factor has more
    normal_->set_zero();
    for (std::size_t first = 0; first < part_count_; first += parts_.size()) {
      const std::size_t after = std::min(part_count_, first + parts_.size());
      for_parts(part_count_, {static_cast<int>(first), static_cast<int>(after)},
                [&](std::size_t part, std::size_t begin, std::size_t end) {
                  Equations& to = parts_[part - first];
                  to.set_zero();
                  for (std::size_t n = begin; n < end; ++n) {
                    if (first_[n] != first_[n + 1]) linearise_anchor(n, scale, to);
                  }
                });
      normal_->add(std::span(parts_).first(after - first));
    }
    add_priors(*normal_);
  }

  void linearise_anchor(std::size_t n, double scale, Equations& to) {
    const Anchor& anchor = bundle_.anchors[n];
    const AnchorRay ray(bundle_, anchor);
    const int own = frame_node(anchor.frame), own_lens = lens_node(anchor.frame);
    const LensSlopes ray_slopes = ray.slopes() * mask(lens_index(anchor.frame));
    AnchorSums& sums = sums_[n] = {};
    sums.hessian = 1 / (priors_.log_depth * priors_.log_depth);
    sums.gradient = depth_pull(n) / priors_.log_depth;
    for (std::size_t i = first_[n]; i < first_[n + 1]; ++i) {
      const Sighting& sighting = bundle_.sightings[i];
      const SeenAnchor seen = see(bundle_, ray, sighting);
      products_[i] = {};
      if (!seen.in_front) continue;
      const double weight = 1 / (1 + seen.error.squaredNorm() / (scale * scale));
      SightingSlopes by = slopes_of(seen, sighting, ray, ray_slopes);
      by.lens *= mask(lens_index(sighting.frame));
      const int other = frame_node(sighting.frame), other_lens = lens_node(sighting.frame);
      const bool same_lens = other_lens == own_lens;
      if (same_lens) by.anchor_lens += by.lens;
      to.add_product(other, other, weight, by.camera, by.camera);
      to.add_product(own, own, weight, by.anchor, by.anchor);
      to.add_product(other, own, weight, by.camera, by.anchor);
      to.add_product(own_lens, other, weight, by.anchor_lens, by.camera);
      to.add_product(own_lens, own, weight, by.anchor_lens, by.anchor);
      to.add_product(own_lens, own_lens, weight, by.anchor_lens, by.anchor_lens);
      to.add_gradient(other, weight, by.camera, seen.error);
      to.add_gradient(own, weight, by.anchor, seen.error);
      to.add_gradient(own_lens, weight, by.anchor_lens, seen.error);
      if (!same_lens) {
        to.add_product(other_lens, other, weight, by.lens, by.camera);
        to.add_product(other_lens, own, weight, by.lens, by.anchor);
        to.add_product(other_lens, own_lens, weight, by.lens, by.anchor_lens);
        to.add_product(other_lens, other_lens, weight, by.lens, by.lens);
        to.add_gradient(other_lens, weight, by.lens, seen.error);
        products_[i].lens.head<4>() = weight * by.lens.transpose() * by.depth;
      }
      products_[i].camera = weight * by.camera.transpose() * by.depth;
      sums.camera += weight * by.anchor.transpose() * by.depth;
      sums.lens.head<4>() += weight * by.anchor_lens.transpose() * by.depth;
      sums.hessian += weight * by.depth.squaredNorm();
      sums.gradient += weight * by.depth.dot(seen.error);
    }
  }

  Eigen::DiagonalMatrix<double, 4> mask(int lens) const {
    return lens_masks_[static_cast<std::size_t>(lens)].asDiagonal();
  }

  void add_priors(Equations& to) const {
    const double turn = 1 / (priors_.rotation * priors_.rotation),
                 shift = 1 / (translation_sigma_ * translation_sigma_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] < 0) continue;
      const Eigen::Isometry3d &pose = bundle_.poses[i], &given = given_.poses[i];
      const Eigen::Vector3d translation = pose.translation();
      Eigen::Matrix<double, 3, 6> by;  // of the translation
      by << Eigen::Matrix3d::Identity(), -skew(translation);
      auto block = to.hessian.block(nodes_[i], nodes_[i]);
      auto slope = to.gradient.segment<6>(TiledMatrix::kBlock * nodes_[i]);
      block += shift * by.transpose() * by;
      slope += shift * by.transpose() * (translation - given.translation());
      block.diagonal().tail<3>().array() += turn;
      slope.tail<3>() += turn * rotation_vector(pose.linear() * given.linear().transpose());
    }
    for (std::size_t i = 0; i < bundle_.lenses.size(); ++i) {
      const int node = first_lens_ + static_cast<int>(i);
      const Eigen::Vector4d trust = lens_trust_.cwiseProduct(lens_masks_[i]);
      to.hessian.block(node, node).diagonal().head<4>() += trust;
      to.gradient.segment<4>(TiledMatrix::kBlock * node) += trust.cwiseProduct(lens_pull(i));
    }
  }

  /// Calls take(node, place of the product) for each pose and lens that is adjusted and an anchor's depth
  /// depends on. A lens other than the anchor's own comes once for each sighting through it.
  template <class Take>
  void for_nodes(std::size_t anchor, Take&& take) const {
    const int own = bundle_.anchors[anchor].frame;
    if (frame_node(own) >= 0) take(frame_node(own), kOwnCamera);
    take(lens_node(own), kOwnLens);
    for (std::size_t i = first_[anchor]; i < first_[anchor + 1]; ++i) {
      const int frame = bundle_.sightings[i].frame, place = 2 * static_cast<int>(i);
      if (frame_node(frame) >= 0) take(frame_node(frame), place);
      if (lens_node(frame) != lens_node(own)) take(lens_node(frame), place + 1);
    }
  }
  const Vector6d& product(std::size_t anchor, int place) const {
    if (place < 0) return place == kOwnCamera ? sums_[anchor].camera : sums_[anchor].lens;
    const SightingProducts& products = products_[static_cast<std::size_t>(place / 2)];
    return place % 2 == 0 ? products.camera : products.lens;
  }

  /// Takes what the anchors' depths say of their nodes off the equations, in the column of one node.
  void eliminate(int column, double damping, Equations& from) const {
    const auto node = static_cast<std::size_t>(column);
    for (std::size_t i = first_of_node_[node]; i < first_of_node_[node + 1]; ++i) {
      const auto n = static_cast<std::size_t>(of_nodes_[i].anchor);
      const double inverse = 1 / (sums_[n].hessian * (1 + damping));
      const Vector6d scaled = inverse * product(n, of_nodes_[i].place);
      from.gradient.segment<6>(TiledMatrix::kBlock * column) -= sums_[n].gradient * scaled;
      for_nodes(n, [&](int row, int place) {
        if (row >= column)
          from.hessian.block(row, column).noalias() -= product(n, place) * scaled.transpose();
      });
    }
  }

  /// Makes parts_[0] the equations without the depths, and their matrix its factor. Returns false where it is
  /// not positive definite.
  bool reduce(double damping) {
    events_.check_stop();
    Equations& reduced = parts_[0];
    reduced = *normal_;
    reduced.hessian.damp(1 + damping);
    // A column is one thread's, so that its sums are in the anchors' order.
    cv::parallel_for_({0, node_count_}, [&](const cv::Range& range) {
      for (int column = range.start; column < range.end; ++column) eliminate(column, damping, reduced);
    });
    return reduced.hessian.factorise();
  }

  /// Makes one step. Returns false, with nothing changed, where the equations are not positive definite.
  bool step(double damping) {
    if (!reduce(damping)) return false;
    change_by(-parts_[0].hessian.solve(parts_[0].gradient), damping);
    return true;
  }

  void change_by(const Eigen::VectorXd& change, double damping) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] < 0) continue;
      const Vector6d own = change.segment<6>(TiledMatrix::kBlock * nodes_[i]);
      Eigen::Isometry3d& pose = bundle_.poses[i];
      const Eigen::Matrix3d turn = rotation_by(own.tail<3>()), before = pose.linear();
      pose.linear() = turn * before;
      pose.translation() = (turn * pose.translation() + own.head<3>()).eval();
    }
    for (std::size_t i = 0; i < bundle_.lenses.size(); ++i) {
      const int node = first_lens_ + static_cast<int>(i);
      const Eigen::Vector4d own = change.segment<4>(TiledMatrix::kBlock * node);
      bundle_.lenses[i] = changed_by(bundle_.lenses[i], own.cwiseProduct(lens_masks_[i]));
    }
    for_all_parts(kMostParts, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) {
        if (first_[n] == first_[n + 1]) continue;
        double slope = sums_[n].gradient;
        for_nodes(n, [&](int node, int place) {
          slope += product(n, place).dot(change.segment<6>(TiledMatrix::kBlock * node));
        });
        const double moved = -slope / (sums_[n].hessian * (1 + damping));
        bundle_.anchors[n].log_depth += std::clamp(moved, -kMostDepthStep, kMostDepthStep);
      }
    });
  }

  Bundle& bundle_;
  const Values given_;
  const BundlePriors priors_;
  const Events& events_;
  double translation_sigma_ = 0;
  int node_count_ = 0, first_lens_ = 0;
  std::vector<int> nodes_;                   // of each frame; -1 for one that is not free
  std::vector<std::size_t> first_;           // index of each anchor's first sighting
  Eigen::Vector4d lens_trust_;               // of the lenses' priors
  std::vector<Eigen::Vector4d> lens_masks_;  // 1 where a lens is free, else 0
  std::optional<Equations> normal_;          // of all anchors
  std::size_t part_count_ = 0;               // of all anchors
  std::vector<Equations> parts_;             // of some of their parts; the first then without the depths
  std::vector<AnchorOfNode> of_nodes_;       // node after node
  std::vector<std::size_t> first_of_node_;   // index of each node's first anchor in of_nodes_
  std::vector<AnchorSums> sums_;
  std::vector<SightingProducts> products_;
};

}  // namespace

void adjust_bundle(Bundle& bundle, const Bundle& given, const BundlePriors& priors,
                   const BundleSchedule& schedule, const Events& events) {
  if (!bundle.sightings.empty()) Adjustment(bundle, given, priors, schedule.most_bytes, events).run(schedule);
}

std::vector<double> focal_deviations(Bundle& bundle, std::size_t most_lenses, std::size_t most_bytes,
                                     const Events& events) {
  // Priors that tell nothing, of what they hold: the world's place where all poses are free, its scale,
  // depths of few sightings. Much weaker ones of the first two would leave equations that rounding makes
  // indefinite.
  constexpr double kWeak = 30, kWeakDepth = 1000;
  BundlePriors priors;
  for (double* const prior :
       {&priors.rotation, &priors.translation, &priors.log_focal, &priors.log_aspect, &priors.k1, &priors.k2})
    *prior *= kWeak;
  priors.log_depth *= kWeakDepth;
  return Adjustment(bundle, bundle, priors, most_bytes, events).focal_deviations(most_lenses);
}

int64_t equation_bytes(int64_t frames, bool at_least) {
  constexpr auto kTile = static_cast<std::size_t>(TiledMatrix::kTile);
  const std::size_t tiles = (static_cast<std::size_t>(std::max<int64_t>(1, frames)) + kTile - 1) / kTile,
                    matrix = tiles * (tiles + 1) / 2 * sizeof(TiledMatrix::Tile);
  return static_cast<int64_t>((1 + (at_least ? 1 : parts_of(matrix))) * matrix);
}

}  // namespace vggt
