#pragma once
#include <Eigen/Geometry>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "app/events/events.h"

namespace vggt {

/// How a camera maps what it sees onto the pixels of the upright original: as Camera, whose centres lie at
/// integers.
struct Lens {
  Eigen::Vector2d focal = Eigen::Vector2d::Ones(), centre = Eigen::Vector2d::Zero();
  Eigen::Vector2d distortion = Eigen::Vector2d::Zero();  // k1, k2
};

/// What of a lens an adjustment may change.
struct LensFreedom {
  bool focal = true;    // both focal lengths by one factor
  bool aspect = false;  // the second one by another
  bool k1 = false, k2 = false;
};

/// A pixel of a frame, and the logarithm of its depth.
struct Anchor {
  int frame = 0;
  Eigen::Vector2d pixel;
  double log_depth = 0;
};

/// Where another frame shows an anchor.
struct Sighting {
  int anchor = 0, frame = 0;
  Eigen::Vector2d pixel;
  /// Turns a distance in pixels into standard deviations: the inverse of the covariance's Cholesky factor.
  Eigen::Matrix2d whitening = Eigen::Matrix2d::Identity();
};

/// What is adjusted. Sightings are ordered by their anchors, each of which has at most one in a frame.
struct Bundle {
  std::vector<Eigen::Isometry3d> poses;  // cam_from_world of each frame, finite
  std::vector<bool> free;                // of each frame, whether the adjustment may change its pose
  std::vector<int> lens_of;              // of each frame
  std::vector<Lens> lenses;
  std::vector<LensFreedom> lens_free;
  std::vector<Anchor> anchors;
  std::vector<Sighting> sightings;
};

/// How far the given values are to be trusted: standard deviations.
struct BundlePriors {
  double rotation = 0.05;    // radians
  double translation = 0.1;  // of the anchors' median depth
  double log_depth = 0.3;
  double log_focal = 0.1, log_aspect = 0.03;
  double k1 = 0.1, k2 = 0.1;
};

/// What an adjustment throws that would take more than it may.
struct TooManyEquations : std::bad_alloc {
  const char* what() const noexcept override {
    return "the equations of the adjustment take more than --host-memory leaves";
  }
};

/// How a bundle is adjusted.
struct BundleSchedule {
  /// Cauchy's scale in standard deviations at first; it falls to 1.1. At first even sightings that are far
  /// off count.
  double first_scale = 4;
  int iterations = 15;
  double converged = 1e-5;  // two smaller relative changes of the cost in a row end it
  /// It also ends, at the last scale, where this cost is out of reach: where in each iteration that is left
  /// the cost would have to fall by more than in either of the last two.
  double hopeless = std::numeric_limits<double>::infinity();
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();  // beside the bundle
};

/// Bundle adjustment: finds poses, lenses and depths of anchors that best explain the sightings (Cauchy's
/// function of the whitened distance) and stay near those of `given`, which has the same cameras, lenses and
/// anchors. The method is Levenberg-Marquardt's; Schur's complement eliminates the depths, and what remains,
/// six unknowns a free frame and four a lens, is a matrix of tiles (tiled_matrix.h). Changes free poses, what
/// is free of lenses, and log_depth. The result depends neither on the number of threads nor on most_bytes.
/// Returns the cost that is left. Throws Stopped, TooManyEquations.
double adjust_bundle(Bundle& bundle, const Bundle& given, const BundlePriors& priors,
                     const BundleSchedule& schedule, const Events& events);

/// How well sightings tell a lens: standard deviations, 0 of what is not free, NaN where the equations cannot
/// be solved.
struct LensDeviations {
  double focal = 0;  // of the logarithm of the focal length, or of the aspect's if that is greater
  double k1 = 0;
};

/// How well the sightings alone, without priors, tell each of the first lenses, at most so many, where the
/// bundle stands. Changes nothing. Throws as adjust_bundle().
std::vector<LensDeviations> lens_deviations(Bundle& bundle, std::size_t most_lenses, std::size_t most_bytes,
                                            const Events& events);

/// What the equations of so many frames take that all see the same; at_least: where memory is short.
int64_t equation_bytes(int64_t frames, bool at_least = false);

}  // namespace vggt
