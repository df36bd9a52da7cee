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

#include "app/adjust/bundle_equations.h"
#include "app/adjust/sighting_error.h"
#include "app/adjust/sighting_sums.h"
#include "app/adjust/tiled_matrix.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr int kTries = 5;
constexpr double kScaleFactor = 0.6, kLastScale = 1.1;
constexpr double kFirstDamping = 1e-4, kLeastDamping = 1e-7;
constexpr double kBehind = 10;  // what a sighting behind its camera costs, in squares of the scale
constexpr double kMostDepthStep = 0.3;
constexpr double kMostProduct = 1e100;  // of which the logarithm is taken
// Parts of the anchors, of which as many as fit are summed up one beside the other, then added in order.
constexpr std::size_t kFewestParts = 2, kMostParts = 16, kPartBytes = std::size_t{128} << 20;
constexpr std::size_t kPartSightings = 8192;  // of fewer the sums take less than adding them up

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
    make_links(most_bytes);
    normal_.emplace(empty_matrix());
    part_count_ = std::clamp(bundle.sightings.size() / kPartSightings, kFewestParts,
                             parts_of(normal_->hessian.bytes()));
    parts_.assign(std::min(part_count_, fitting_parts(most_bytes)), *normal_);
  }

  double run(const BundleSchedule& schedule) {
    double damping = kFirstDamping, before = 0, scale_before = 0, gain_before = 0;
    int small_gains = 0;  // in a row
    for (int i = 0; i < schedule.iterations; ++i) {
      const double scale = std::max(kLastScale, schedule.first_scale * std::pow(kScaleFactor, i));
      if (scale != scale_before) {
        before = cost(scale);
        gain_before = 0;
        small_gains = 0;
      }
      scale_before = scale;
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
      const double gain = accepted ? before - after : 0;
      // In a bent valley one step gains little, and the next one much.
      small_gains = gain < schedule.converged * before ? small_gains + 1 : 0;
      const double most = std::max(gain, std::exchange(gain_before, gain)) * (schedule.iterations - 1 - i);
      const bool settled = !accepted || small_gains >= 2, is_hopeless = before - most > schedule.hopeless;
      if (accepted) before = after;
      if (scale <= kLastScale && (settled || is_hopeless)) break;
    }
    return before;
  }

  std::vector<LensDeviations> deviations(std::size_t most_lenses) {
    linearise(kLastScale);
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    std::vector<LensDeviations> deviations(std::min(bundle_.lenses.size(), most_lenses),
                                           {kUnknown, kUnknown});
    if (!reduce(0)) return deviations;
    for (std::size_t i = 0; i < deviations.size(); ++i)
      deviations[i] = {std::max(deviation(i, 0), deviation(i, 1)), deviation(i, 2)};
    return deviations;
  }

 private:
  /// By the factor in parts_[0], of one of a lens's numbers.
  double deviation(std::size_t lens, int number) const {
    if (lens_masks_[lens][number] == 0) return 0;
    const TiledMatrix& factor = parts_[0].hessian;
    const int place = TiledMatrix::kBlock * (first_lens_ + static_cast<int>(lens)) + number;
    return std::sqrt(factor.solve(Eigen::VectorXd::Unit(factor.rows(), place))[place]);
  }

  /// How many parts are within most_bytes at a time. Throws TooManyEquations where not even one is.
  std::size_t fitting_parts(std::size_t most_bytes) const {
    const std::size_t matrix = normal_->hessian.bytes(), fill = normal_->hessian.factor_bytes() - matrix,
                      beside = matrix + fill + bytes_beside(links_.size()),
                      part = matrix + bundle_.poses.size() * sizeof(LaneProducts);
    const std::size_t fitting = (most_bytes - std::min(most_bytes, beside)) / part;
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

  /// Calls take(anchor, node) for each pose and lens that is adjusted and an anchor's depth depends on, in
  /// the order of links: its own camera and lens, then those of its sightings. A lens other than its own
  /// comes once for each sighting through it.
  template <class Take>
  void for_links(Take&& take) const {
    for (std::size_t n = 0; n < bundle_.anchors.size(); ++n) {
      if (first_[n] == first_[n + 1]) continue;
      const int own = bundle_.anchors[n].frame;
      if (frame_node(own) >= 0) take(n, frame_node(own));
      take(n, lens_node(own));
      for (std::size_t i = first_[n]; i < first_[n + 1]; ++i) {
        const int frame = bundle_.sightings[i].frame;
        if (frame_node(frame) >= 0) take(n, frame_node(frame));
        if (lens_node(frame) != lens_node(own)) take(n, lens_node(frame));
      }
    }
  }

  /// Links anchors with what their depths depend on. Throws TooManyEquations where there is no room for that.
  void make_links(std::size_t most_bytes) {
    first_of_node_.assign(static_cast<std::size_t>(node_count_) + 1, 0);
    for_links([&](std::size_t, int node) { ++first_of_node_[static_cast<std::size_t>(node) + 1]; });
    std::partial_sum(first_of_node_.begin(), first_of_node_.end(), first_of_node_.begin());
    const std::size_t links = first_of_node_.back();
    if (bytes_beside(links) > most_bytes || links > std::numeric_limits<int>::max()) throw TooManyEquations();
    links_.reserve(links);
    of_nodes_.resize(links);
    depths_.resize(bundle_.anchors.size());
    std::vector<std::size_t> next = first_of_node_;
    for_links([&](std::size_t n, int node) {
      const int place = static_cast<int>(links_.size());
      if (depths_[n].end == 0) depths_[n].first = place;
      depths_[n].end = place + 1;
      of_nodes_[next[static_cast<std::size_t>(node)]++] = {static_cast<int>(n), place};
      links_.push_back({node, Vector6d::Zero()});
    });
  }
  /// What is held beside matrices. Anchors are held once more as they were given, and as they were before a
  /// step.
  std::size_t bytes_beside(std::size_t links) const {
    return links * (sizeof(DepthLink) + sizeof(LinkOfNode)) +
           bundle_.anchors.size() * (sizeof(DepthSums) + 2 * sizeof(Anchor));
  }
  DepthLink& link_at(int i) { return links_[static_cast<std::size_t>(i)]; }
  const DepthLink& link_at(int i) const { return links_[static_cast<std::size_t>(i)]; }

  /// The matrix with the tiles that nodes of common anchors need.
  TiledMatrix empty_matrix() const {
    TiledMatrix matrix(node_count_);
    std::vector<int> of_anchor;
    for (const DepthSums& depth : depths_) {
      of_anchor.clear();
      for (int i = depth.first; i < depth.end; ++i) of_anchor.push_back(link_at(i).node / TiledMatrix::kTile);
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

  double cost(double scale) const {
    std::array<double, kMostParts> sums{};
    const double square = scale * scale;
    for_all_parts(kMostParts, [&](std::size_t part, std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) {
        if (first_[n] == first_[n + 1]) continue;  // its depth stays
        sums[part] += std::pow(depth_pull(n), 2);
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
    parts_[0] = *normal_;  // without the tiles that a factor has more
    normal_->set_zero();
    for (std::size_t first = 0; first < part_count_; first += parts_.size()) {
      const std::size_t after = std::min(part_count_, first + parts_.size());
      for_parts(part_count_, {static_cast<int>(first), static_cast<int>(after)},
                [&](std::size_t part, std::size_t begin, std::size_t end) {
                  Equations& to = parts_[part - first];
                  to.set_zero();
                  linearise_anchors(begin, end, scale, to);
                });
      normal_->add(std::span(parts_).first(after - first));
    }
    add_priors(*normal_);
  }

  void linearise_anchors(std::size_t begin, std::size_t end, double scale, Equations& to) {
    SumsByFrame sums(bundle_.poses.size());
    for (std::size_t n = begin; n < end; ++n) {
      if (first_[n] != first_[n + 1]) linearise_anchor(n, scale, sums);
      const int frame = bundle_.anchors[n].frame;
      if (n + 1 < end && bundle_.anchors[n + 1].frame == frame) continue;
      sums.take_all([&](int other, const LaneProducts& of_other) { add_sums(frame, other, of_other, to); });
    }
  }

  void linearise_anchor(std::size_t n, double scale, SumsByFrame& sums) {
    const Anchor& anchor = bundle_.anchors[n];
    const AnchorRay ray(bundle_, anchor);
    const int own_lens = lens_index(anchor.frame), own_lanes = lens_lanes(own_lens);
    const LensSlopes ray_slopes = ray.slopes() * mask(own_lens);
    DepthSums& depth = depths_[n];
    const bool is_free = frame_node(anchor.frame) >= 0;
    int next = depth.first + (is_free ? 2 : 1);  // link of a sighting, in the order of for_links()
    Lanes all = Lanes::Zero();
    Eigen::Vector3d in_anchor = Eigen::Vector3d::Zero();  // the product with the anchor's place in its camera
    for (std::size_t i = first_[n]; i < first_[n + 1]; ++i) {
      const Sighting& sighting = bundle_.sightings[i];
      const int lens = lens_index(sighting.frame);
      const bool has_own_lens = lens == own_lens;
      Lanes with_depth = Lanes::Zero();
      if (const SeenAnchor seen = see(bundle_, ray, sighting); seen.in_front) {
        const double weight = 1 / (1 + seen.error.squaredNorm() / (scale * scale));
        const SightingSlopes by = slopes_of(seen, sighting, ray, ray_slopes);
        const LensSlopes by_lens = by.lens * mask(lens);
        SightingRows rows;
        for (int k = 0; k < 2; ++k)
          rows.row(k).segment<6>(kPoseLane) << by.in_camera.row(k),
              seen.in_camera.cross(by.in_camera.row(k).transpose()).transpose();
        rows.middleCols<4>(kAnchorLensLane) = by.anchor_lens;
        if (has_own_lens) {
          rows.middleCols<4>(kAnchorLensLane) += by_lens;
          rows.middleCols<4>(kLensLane).setZero();
        } else {
          rows.middleCols<4>(kLensLane) = by_lens;
        }
        rows.col(kErrorLane) = seen.error;
        rows.col(kDepthLane) = by.depth;
        add_sighting(rows, weight, own_lanes, has_own_lens ? 0 : lens_lanes(lens), sums.of(sighting.frame),
                     with_depth);
        in_anchor += weight * by.in_anchor.transpose() * by.depth;
      }
      if (frame_node(sighting.frame) >= 0) link_at(next++).product = with_depth.segment<6>(kPoseLane);
      if (!has_own_lens) link_at(next++).product.head<4>() = with_depth.segment<4>(kLensLane);
      all += with_depth;
    }
    // The anchor moves with its camera: by the negative of what moves it within that.
    if (is_free) link_at(depth.first).product << -in_anchor, in_anchor.cross(ray.in_anchor);
    link_at(depth.first + (is_free ? 1 : 0)).product.head<4>() = all.segment<4>(kAnchorLensLane);
    depth.hessian = 1 / (priors_.log_depth * priors_.log_depth) + all[kDepthLane];
    depth.gradient = depth_pull(n) / priors_.log_depth + all[kErrorLane];
  }

  /// Adds what a frame's sightings of another one's anchors sum up to.
  void add_sums(int anchors_frame, int frame, const LaneProducts& sums, Equations& to) const {
    const Eigen::Isometry3d &pose = bundle_.poses[static_cast<std::size_t>(frame)],
                            &anchors_pose = bundle_.poses[static_cast<std::size_t>(anchors_frame)];
    // The anchors move with their camera, as if the frame's moved the other way: an error's slope by their
    // camera's pose is the one by the frame's, times this.
    const Matrix6d move = -adjoint(pose * anchors_pose.inverse());
    const int node = frame_node(frame), anchors_node = frame_node(anchors_frame);
    const Matrix6d products = sums.topLeftCorner<6, 6>(), moved = products * move;
    const Vector6d slope = sums.col(kErrorLane).head<6>();
    to.add_product(node, node, products);
    to.add_product(node, anchors_node, moved);
    to.add_product(anchors_node, anchors_node, Matrix6d(move.transpose() * moved));
    to.add_gradient(node, slope);
    to.add_gradient(anchors_node, Vector6d(move.transpose() * slope));
    const auto add_lens = [&](int lens, int lane) {
      const Eigen::Matrix<double, 4, 6> by_pose = sums.block<4, 6>(lane, kPoseLane);
      to.add_product(lens, node, by_pose);
      to.add_product(lens, anchors_node, Eigen::Matrix<double, 4, 6>(by_pose * move));
      to.add_product(lens, lens, sums.block<4, 4>(lane, lane));
      to.add_gradient(lens, Eigen::Vector4d(sums.block<4, 1>(lane, kErrorLane)));
    };
    const int lens = lens_node(frame), anchors_lens = lens_node(anchors_frame);
    add_lens(anchors_lens, kAnchorLensLane);
    if (lens == anchors_lens) return;
    add_lens(lens, kLensLane);
    to.add_product(lens, anchors_lens, sums.block<4, 4>(kLensLane, kAnchorLensLane));
  }

  Eigen::DiagonalMatrix<double, 4> mask(int lens) const {
    return lens_masks_[static_cast<std::size_t>(lens)].asDiagonal();
  }
  /// How many of a lens's numbers there are up to the last one that is free.
  int lens_lanes(int lens) const {
    const LensFreedom& free = bundle_.lens_free[static_cast<std::size_t>(lens)];
    return free.k2 ? 4 : free.k1 ? 3 : free.aspect ? 2 : free.focal ? 1 : 0;
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

  /// Takes what the anchors' depths say of their nodes off the equations, in the column of one node.
  void eliminate(int column, double damping, Equations& from) const {
    const std::size_t first = first_of_node_[static_cast<std::size_t>(column)],
                      end = first_of_node_[static_cast<std::size_t>(column) + 1];
    eliminate_depths(column, std::span(of_nodes_).subspan(first, end - first), depths_, links_, damping,
                     from.hessian, from.gradient.data() + TiledMatrix::kBlock * column);
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
        const DepthSums& depth = depths_[n];
        double slope = depth.gradient;
        for (int i = depth.first; i < depth.end; ++i)
          slope += link_at(i).product.dot(change.segment<6>(TiledMatrix::kBlock * link_at(i).node));
        const double moved = -slope / (depth.hessian * (1 + damping));
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
  std::vector<DepthSums> depths_;            // of the anchors
  std::vector<DepthLink> links_;             // anchor after anchor
  std::vector<LinkOfNode> of_nodes_;         // node after node
  std::vector<std::size_t> first_of_node_;   // index of each node's first link in of_nodes_
};

}  // namespace

double adjust_bundle(Bundle& bundle, const Bundle& given, const BundlePriors& priors,
                     const BundleSchedule& schedule, const Events& events) {
  if (bundle.sightings.empty()) return 0;
  return Adjustment(bundle, given, priors, schedule.most_bytes, events).run(schedule);
}

std::vector<LensDeviations> lens_deviations(Bundle& bundle, std::size_t most_lenses, std::size_t most_bytes,
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
  return Adjustment(bundle, bundle, priors, most_bytes, events).deviations(most_lenses);
}

int64_t equation_bytes(int64_t frames, bool at_least) {
  constexpr auto kTile = static_cast<std::size_t>(TiledMatrix::kTile);
  const std::size_t tiles = (static_cast<std::size_t>(std::max<int64_t>(1, frames)) + kTile - 1) / kTile,
                    matrix = tiles * (tiles + 1) / 2 * sizeof(TiledMatrix::Tile);
  return static_cast<int64_t>((1 + (at_least ? 1 : parts_of(matrix))) * matrix);
}

}  // namespace vggt
