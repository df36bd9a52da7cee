#pragma once
#include <Eigen/Core>
#include <vector>

#include "app/events/events.h"
#include "io/scene/camera.h"

namespace vggt {

/// A pixel of a frame, and the logarithm of its depth.
struct Anchor {
  int frame = 0;
  Eigen::Vector2d pixel;  // from the principal point
  double log_depth = 0;
};

/// Where another frame shows an anchor.
struct Sighting {
  int anchor = 0, frame = 0;
  Eigen::Vector2d pixel;  // from the principal point
  /// Turns a distance in pixels into standard deviations: the inverse of the covariance's Cholesky factor.
  Eigen::Matrix2d whitening = Eigen::Matrix2d::Identity();
};

/// What is adjusted. Sightings are ordered by their anchors, each of which has at most one in a frame.
struct Bundle {
  std::vector<Camera> cameras;  // all finite; of k the focal lengths count, before the common correction
  std::vector<bool> free;       // of each camera, whether the adjustment may change its pose
  double log_focal = 0;         // a correction of all focal lengths together: focal * exp(log_focal)
  std::vector<Anchor> anchors;
  std::vector<Sighting> sightings;
};

/// How far the given values are to be trusted: standard deviations.
struct BundlePriors {
  double rotation = 0.05;    // radians
  double translation = 0.1;  // of the anchors' median depth
  double log_depth = 0.3;
  double log_focal = 0.1;
};

/// Bundle adjustment: finds poses, depths of anchors and the common focal length that best explain the
/// sightings (Cauchy's function of the whitened distance) and stay near the given values. The method is
/// Levenberg-Marquardt's; Schur's complement eliminates the depths, and the matrix that remains (6 unknowns a
/// free camera) is dense. Changes the poses of free cameras, log_depth and log_focal. Throws Stopped.
void adjust_bundle(Bundle& bundle, const BundlePriors& priors, const Events& events);

/// How well each anchor's sightings fix the logarithm of its depth: the sum over the sightings of
/// (d error / d log_depth)² / (1 + error²), errors whitened. 0 without sightings.
std::vector<double> depth_information(const Bundle& bundle);

}  // namespace vggt
