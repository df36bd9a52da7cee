#pragma once
#include <Eigen/Geometry>
#include <cmath>

#include "app/adjust/bundle_adjustment.h"

// How far sightings are from where a bundle puts their anchors, and the slopes of that error. Inline: this is
// the inner loop of the adjustment.
namespace vggt {

inline Eigen::Matrix3d skew(const Eigen::Vector3d& v) {
  Eigen::Matrix3d m;
  m << 0, -v.z(), v.y(), v.z(), 0, -v.x(), -v.y(), v.x(), 0;
  return m;
}

/// Copies of a camera's pose and focal lengths: products of blocks of larger matrices round otherwise.
struct BundlePose {
  explicit BundlePose(const Camera& camera)
      : rotation(camera.cam_from_world.linear()),
        translation(camera.cam_from_world.translation()),
        focal(camera.k.diagonal().head<2>()) {}

  Eigen::Matrix3d rotation;
  Eigen::Vector3d translation;
  Eigen::Vector2d focal;
};

/// An anchor as a sighting's camera sees it.
struct SeenAnchor {
  Eigen::Matrix3d turn;  // rotation, the sighting's camera from the anchor's
  Eigen::Vector3d in_anchor, in_camera;
  Eigen::Vector2d normal, error;  // on the plane z = 1; whitened
  Eigen::Matrix2d scale;          // of the error by the normal
  bool in_front;
};

/// Derivatives of a sighting's error: by pose (translation, rotation from the left) of its camera and of its
/// anchor's, by log_focal and by log_depth.
struct SightingSlopes {
  Eigen::Matrix<double, 2, 6> camera, anchor;
  Eigen::Vector2d focal, depth;
};

/// How the bundle as it stands explains a sighting.
inline SeenAnchor see(const Bundle& bundle, const Sighting& sighting) {
  constexpr double kNearest = 0.02;  // of the network's unit: an anchor nearer to a camera is behind it
  const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(sighting.anchor)];
  const BundlePose from(bundle.cameras[static_cast<std::size_t>(anchor.frame)]);
  const BundlePose to(bundle.cameras[static_cast<std::size_t>(sighting.frame)]);
  const double zoom = std::exp(bundle.log_focal);
  SeenAnchor seen;
  const Eigen::Vector2d ray = anchor.pixel.cwiseQuotient(from.focal) / zoom;
  seen.in_anchor = std::exp(anchor.log_depth) * ray.homogeneous();
  seen.turn = to.rotation * from.rotation.transpose();
  seen.in_camera = seen.turn * (seen.in_anchor - from.translation) + to.translation;
  seen.in_front = seen.in_camera.z() > kNearest;
  seen.normal = seen.in_camera.head<2>() / (seen.in_front ? seen.in_camera.z() : 1);
  const Eigen::Vector2d focal = zoom * to.focal;
  seen.error = sighting.whitening * (seen.normal.cwiseProduct(focal) - sighting.pixel);
  seen.scale = sighting.whitening * focal.asDiagonal();
  return seen;
}

/// Slopes of a sighting whose anchor is in front of the camera.
inline SightingSlopes slopes_of(const SeenAnchor& seen) {
  Eigen::Matrix<double, 2, 3> by_point;
  by_point << seen.scale, -seen.scale * seen.normal;
  by_point /= seen.in_camera.z();
  const Eigen::Matrix<double, 2, 3> by_anchor = by_point * seen.turn;
  SightingSlopes slopes;
  slopes.camera << by_point, -by_point * skew(seen.in_camera);
  slopes.anchor << -by_anchor, by_anchor * skew(seen.in_anchor);
  slopes.focal = seen.scale * seen.normal - by_anchor.leftCols<2>() * seen.in_anchor.head<2>();
  slopes.depth = by_anchor * seen.in_anchor;
  return slopes;
}

}  // namespace vggt
