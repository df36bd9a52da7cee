#pragma once
#include <Eigen/Core>
#include <cmath>
#include <limits>

// The radial distortion of Camera, k1 and k2, on the plane z = 1.
namespace vggt {

/// The factor by which a point at the squared radius r2 moves from the middle.
inline double distortion_factor(const Eigen::Vector2d& distortion, double r2) {
  return 1 + r2 * (distortion[0] + r2 * distortion[1]);
}

/// The squared radius up to which what is farther from the middle is shown farther from it; infinite where
/// that is so everywhere.
inline double unfolded_r2(const Eigen::Vector2d& distortion) {
  // The first root above 0 of the slope, 1 + 3·k1·r2 + 5·k2·r2².
  const double half = 1.5 * distortion[0], product = 5 * distortion[1], inside = half * half - product;
  if (!(inside >= 0) || (half >= 0 && product >= 0)) return std::numeric_limits<double>::infinity();
  return 1 / (std::sqrt(inside) - half);
}

/// The radius that is shown at the radius `shown`, by Newton's method on the branch that rises from 0. Not a
/// number where the distortion shows nothing there.
inline double undistorted_radius(const Eigen::Vector2d& distortion, double shown) {
  constexpr int kSteps = 50;
  double r = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double r2 = r * r, slope = 1 + r2 * (3 * distortion[0] + 5 * r2 * distortion[1]);
    if (!(slope > 0)) break;
    const double step = (r * distortion_factor(distortion, r2) - shown) / slope;
    r -= step;
    if (std::abs(step) <= 1e-14 * (1 + r)) return r;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace vggt
