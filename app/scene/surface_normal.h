#pragma once
#include <Eigen/Core>

namespace vggt {

/// The points of a pixel and of its neighbours in the image, world coordinates; not finite: there is none.
struct PointCross {
  Eigen::Vector3f middle, left, right, above, below;
};

/// The normal of the surface at `middle`, of length 1, on the side of `eye`. Across an edge of the surface
/// the nearer neighbour counts alone. Where neighbours do not tell, the direction to the eye.
Eigen::Vector3f surface_normal(const PointCross& points, const Eigen::Vector3f& eye);

}  // namespace vggt
