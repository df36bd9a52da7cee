#include "app/scene/surface_normal.h"

#include <Eigen/Geometry>

namespace vggt {
namespace {

/// Along the surface from one neighbour to the other; 0 where there is neither.
Eigen::Vector3f tangent(const Eigen::Vector3f& before, const Eigen::Vector3f& middle,
                        const Eigen::Vector3f& after) {
  constexpr float kEdge = 3;  // times as far as the other
  const Eigen::Vector3f to = middle - before, from = after - middle;
  if (!to.allFinite()) return from.allFinite() ? from : Eigen::Vector3f::Zero();
  if (!from.allFinite() || from.norm() > kEdge * to.norm()) return to;
  if (to.norm() > kEdge * from.norm()) return from;
  return to + from;
}

}  // namespace

Eigen::Vector3f surface_normal(const PointCross& points, const Eigen::Vector3f& eye) {
  const Eigen::Vector3f across = tangent(points.left, points.middle, points.right),
                        down = tangent(points.above, points.middle, points.below),
                        to_eye = (eye - points.middle).stableNormalized();
  const Eigen::Vector3f normal = across.stableNormalized().cross(down.stableNormalized()).stableNormalized();
  if (!normal.allFinite() || normal.isZero()) return to_eye.isZero() ? Eigen::Vector3f(0, 0, -1) : to_eye;
  return normal.dot(to_eye) < 0 ? Eigen::Vector3f(-normal) : normal;
}

}  // namespace vggt
