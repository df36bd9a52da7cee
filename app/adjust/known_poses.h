#pragma once
#include <Eigen/Geometry>
#include <optional>
#include <vector>

#include "app/adjust/match_input.h"
#include "io/scene/camera.h"

namespace vggt {

/// The given cameras with the poses that the network saw (MatchFrame::guessed_pose); nothing where one of a
/// valid camera is not known.
std::optional<std::vector<Camera>> with_guessed_poses(const MatchInput& input, std::vector<Camera> given);

/// Whether two poses, cam_from_world, or all valid cameras, are in one place, to rounding.
bool are_in_one_place(const Eigen::Isometry3d& a, const Eigen::Isometry3d& b);
bool are_in_one_place(const std::vector<Camera>& cameras);

/// How cameras that were adjusted without the given poses lie to these.
struct BesideGiven {
  double scale = 1;     // from their world to the given one
  double turn_deg = 0;  // how far rotations are off after the similarity, the median
  double distance = 0;  // how far centres are off, the root mean square, by how far the given ones spread
  std::vector<int> wrong = {};  // frames whose given poses do not fit as those of most do: left out of this
  bool agrees() const;
};

/// Up to a quarter of the given poses may be wrong. Nothing where no similarity tells that: fewer than three
/// valid cameras, or all of them in one place.
std::optional<BesideGiven> beside_given(const std::vector<Camera>& adjusted,
                                        const std::vector<Camera>& given);

/// The Sim(3) that brings cameras, adjusted from poses that are nearly right, back to where most of these
/// are: the network's depth has pulled at their scale. Identity where none follows, as from cameras in one
/// place.
Eigen::Affine3d back_to_given(const std::vector<Camera>& adjusted, const std::vector<Camera>& given);

/// The given cameras with the lenses of the adjusted ones.
std::vector<Camera> with_lenses_of(const std::vector<Camera>& adjusted, std::vector<Camera> given);

}  // namespace vggt
