#pragma once
#include <Eigen/Geometry>
#include <Eigen/LU>
#include <cmath>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "io/scene/radial_distortion.h"

// How far sightings are from where a bundle puts their anchors, and the slopes of that error. What is inline
// is the inner loop of the adjustment.
namespace vggt {

using LensSlopes = Eigen::Matrix<double, 2, 4>;  // by log focal length, log aspect, k1, k2

inline Eigen::Matrix3d skew(const Eigen::Vector3d& v) {
  Eigen::Matrix3d m;
  m << 0, -v.z(), v.y(), v.z(), 0, -v.x(), -v.y(), v.x(), 0;
  return m;
}

/// The factor by which a lens moves a point of the plane z = 1 from the middle.
inline double distortion_at(const Lens& lens, double r2) {
  return distortion_factor(lens.distortion, r2);
}

/// Where a lens shows a point of the plane z = 1.
inline Eigen::Vector2d shown_at(const Lens& lens, const Eigen::Vector2d& normal) {
  return distortion_at(lens, normal.squaredNorm()) * normal.cwiseProduct(lens.focal) + lens.centre;
}

/// Derivative of the distorted point by the point of the plane z = 1.
inline Eigen::Matrix2d distortion_slope(const Lens& lens, const Eigen::Vector2d& normal) {
  const double r2 = normal.squaredNorm();
  Eigen::Matrix2d slope =
      (2 * (lens.distortion[0] + 2 * r2 * lens.distortion[1])) * normal * normal.transpose();
  slope.diagonal().array() += distortion_at(lens, r2);
  return slope;
}

/// The point of the plane z = 1 that a lens shows at a pixel. Where the distortion maps none there, the
/// undistorted one.
inline Eigen::Vector2d seen_at(const Lens& lens, const Eigen::Vector2d& pixel) {
  const Eigen::Vector2d shown = (pixel - lens.centre).cwiseQuotient(lens.focal);
  if (lens.distortion.isZero(0)) return shown;
  const double far = shown.norm(), r = undistorted_radius(lens.distortion, far);
  if (std::isnan(r)) return shown;
  return far > 0 ? Eigen::Vector2d(shown * (r / far)) : shown;
}

/// How the slopes of what a lens shows depend on the lens: rows by pixels.
inline LensSlopes lens_slopes(const Lens& lens, const Eigen::Vector2d& normal) {
  const double r2 = normal.squaredNorm();
  const Eigen::Vector2d scaled = normal.cwiseProduct(lens.focal), shown = distortion_at(lens, r2) * scaled;
  LensSlopes slopes;
  slopes << shown, Eigen::Vector2d(0, shown.y()), r2 * scaled, r2 * r2 * scaled;
  return slopes;
}

/// An anchor as its own camera sees it.
struct AnchorRay {
  AnchorRay(const Bundle& bundle, const Anchor& anchor)
      : lens(bundle.lenses[static_cast<std::size_t>(bundle.lens_of[static_cast<std::size_t>(anchor.frame)])]),
        normal(seen_at(lens, anchor.pixel)),
        depth(std::exp(anchor.log_depth)),
        in_anchor(depth * normal.homogeneous()),
        pose(bundle.poses[static_cast<std::size_t>(anchor.frame)]),
        in_world(pose.linear().transpose() * (in_anchor - pose.translation())) {}

  /// Derivatives of `normal` by the lens, while the pixel stays.
  LensSlopes slopes() const {
    const Eigen::Matrix2d by_normal = lens.focal.asDiagonal() * distortion_slope(lens, normal);
    return -by_normal.inverse() * lens_slopes(lens, normal);
  }

  const Lens& lens;
  Eigen::Vector2d normal;  // on the plane z = 1
  double depth;
  Eigen::Vector3d in_anchor;
  const Eigen::Isometry3d& pose;  // of the anchor's camera
  Eigen::Vector3d in_world;
};

/// An anchor as a sighting's camera sees it.
struct SeenAnchor {
  const Lens* lens;
  const Eigen::Isometry3d* pose;  // of the sighting's camera
  Eigen::Vector3d in_camera;
  Eigen::Vector2d normal, error;  // on the plane z = 1; whitened
  bool in_front;
};

/// Derivatives of a sighting's error: by its anchor's place in its camera and in the anchor's, by the lenses
/// of both, and by log_depth.
struct SightingSlopes {
  Eigen::Matrix<double, 2, 3> in_camera, in_anchor;
  LensSlopes lens, anchor_lens;
  Eigen::Vector2d depth;
};

inline Eigen::Matrix3d rotation_by(const Eigen::Vector3d& w) {
  const double angle = w.norm();
  if (!(angle > 0)) return Eigen::Matrix3d::Identity();
  return Eigen::AngleAxisd(angle, w / angle).toRotationMatrix();
}

/// Derivative by a point in a camera of what depends on the point of the plane z = 1 by `by_normal`.
inline Eigen::Matrix<double, 2, 3> slopes_by_point(const Eigen::Matrix2d& by_normal,
                                                   const Eigen::Vector2d& normal, double depth) {
  Eigen::Matrix<double, 2, 3> by_point;
  by_point << by_normal, -by_normal * normal;
  by_point /= depth;
  return by_point;
}

/// How the bundle as it stands explains a sighting.
inline SeenAnchor see(const Bundle& bundle, const AnchorRay& ray, const Sighting& sighting) {
  constexpr double kNearest =
      0.02;  // of its depth in its own camera: an anchor nearer to another is behind it
  const auto frame = static_cast<std::size_t>(sighting.frame);
  SeenAnchor seen;
  seen.lens = &bundle.lenses[static_cast<std::size_t>(bundle.lens_of[frame])];
  seen.pose = &bundle.poses[frame];
  seen.in_camera = seen.pose->linear() * ray.in_world + seen.pose->translation();
  seen.in_front = seen.in_camera.z() > kNearest * ray.depth;
  seen.normal = seen.in_camera.head<2>() / (seen.in_front ? seen.in_camera.z() : 1);
  seen.error = sighting.whitening * (shown_at(*seen.lens, seen.normal) - sighting.pixel);
  return seen;
}

/// Slopes of a sighting whose anchor is in front of the camera.
inline SightingSlopes slopes_of(const SeenAnchor& seen, const Sighting& sighting, const AnchorRay& ray,
                                const LensSlopes& ray_slopes) {
  const Eigen::Matrix2d by_normal =
      sighting.whitening * seen.lens->focal.asDiagonal() * distortion_slope(*seen.lens, seen.normal);
  SightingSlopes slopes;
  slopes.in_camera = slopes_by_point(by_normal, seen.normal, seen.in_camera.z());
  const Eigen::Matrix<double, 2, 3> in_world = slopes.in_camera * seen.pose->linear();
  slopes.in_anchor = in_world * ray.pose.linear().transpose();
  slopes.lens = sighting.whitening * lens_slopes(*seen.lens, seen.normal);
  slopes.anchor_lens = slopes.in_anchor.leftCols<2>() * (ray.depth * ray_slopes);
  slopes.depth = slopes.in_anchor * ray.in_anchor;
  return slopes;
}

/// How well each anchor's sightings fix the logarithm of its depth: the sum over the sightings of
/// (d error / d log_depth)² / (1 + error²), errors whitened. 0 without sightings.
std::vector<double> depth_information(const Bundle& bundle);

/// The distance of each sighting from where the bundle shows its anchor, in standard deviations; infinite
/// where that is behind the camera.
std::vector<double> sighting_errors(const Bundle& bundle);

}  // namespace vggt
