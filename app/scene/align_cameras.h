#pragma once
#include <Eigen/Geometry>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

/// A frame's camera, and the true one. Only the poses count.
struct CameraPair {
  Camera result, truth;
};

/// The camera centres of both sides, a column each.
struct Centres {
  Eigen::Matrix3Xd result, truth;
};
Centres centres_of(const std::vector<CameraPair>& cameras);
/// How far the true ones are from their middle: the root mean square.
double spread_of(const Centres& centres);

/// The Sim(3) from the result's world to the true one that brings the camera centres together (Umeyama 1991).
/// Where the centres lie on a line or in a point, the cameras' rotations decide what these leave open. Throws
/// std::invalid_argument for positions too large to multiply.
Eigen::Affine3d align(const std::vector<CameraPair>& cameras);

/// The same beside a minority of true poses that are wrong.
struct RobustAlignment {
  Eigen::Affine3d truth_from_result = Eigen::Affine3d::Identity();
  std::vector<bool> fits;  // of each pair: it is one of those that were aligned
};

/// Least squares over the cameras that fit: those whose centres and rotations come to within five robust
/// deviations, by the pair of cameras whose Sim(3) has the least median error. Of fewer than five cameras,
/// all fit: which one is wrong cannot be told. Always the same for the same cameras. Throws what align()
/// throws.
RobustAlignment align_robustly(const std::vector<CameraPair>& cameras);

/// The Sim(3) that brings centres and rotations together: least squares, each weighed by how far its own kind
/// is off. What nearly straight centres tell badly, the rotations tell. Where the rotations are scattered (as
/// of positions by GPS, with none) or contradict the centres, and of two cameras, as align(). Throws as that.
Eigen::Affine3d align_with_turns(const std::vector<CameraPair>& cameras);

/// How far the rotations are off after the similarity: the median angle, radians.
double median_turn(const std::vector<CameraPair>& cameras, const Eigen::Affine3d& truth_from_result);

/// The root mean square distance of the centres after the similarity, units of the truth.
double rms_distance(const Centres& centres, const Eigen::Affine3d& truth_from_result);

}  // namespace vggt
