#include "app/adjust/known_poses.h"

#include <algorithm>
#include <cmath>

#include "app/scene/align_cameras.h"
#include "app/scene/world_move.h"

namespace vggt {

std::optional<std::vector<Camera>> with_guessed_poses(const MatchInput& input, std::vector<Camera> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid) continue;
    if (!input.frames[i].guessed_pose) return std::nullopt;
    given[i].cam_from_world = *input.frames[i].guessed_pose;
  }
  return given;
}

bool are_in_one_place(const Eigen::Isometry3d& a, const Eigen::Isometry3d& b) {
  constexpr double kRounding = 1e-9;
  return (b * a.inverse()).translation().norm() <= kRounding * a.translation().norm();
}

bool are_in_one_place(const std::vector<Camera>& cameras) {
  const auto first = std::ranges::find(cameras, true, &Camera::valid);
  return std::all_of(first, cameras.end(), [&](const Camera& camera) {
    return !camera.valid || are_in_one_place(first->cam_from_world, camera.cam_from_world);
  });
}

namespace {

std::vector<CameraPair> valid_pairs(const std::vector<Camera>& adjusted, const std::vector<Camera>& given) {
  std::vector<CameraPair> pairs;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].valid && adjusted[i].valid) pairs.push_back({adjusted[i], given[i]});
  }
  return pairs;
}

std::vector<CameraPair> fitting_of(const std::vector<CameraPair>& pairs, const RobustAlignment& alignment) {
  std::vector<CameraPair> fitting;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (alignment.fits[i]) fitting.push_back(pairs[i]);
  }
  return fitting;
}

/// Those of the pairs that fit, if most do; `wrong` becomes the frames of the others.
std::vector<CameraPair> without_wrong(const std::vector<Camera>& adjusted, const std::vector<Camera>& given,
                                      const std::vector<CameraPair>& pairs, std::vector<int>& wrong) {
  constexpr double kFarOff = 0.1;      // of the centres' spread: others differ by noise
  constexpr std::size_t kOfThese = 4;  // at most one is wrong
  const RobustAlignment alignment = align_robustly(pairs);
  const std::vector<CameraPair> fitting = fitting_of(pairs, alignment);
  const double least = kFarOff * spread_of(centres_of(fitting));
  std::size_t pair = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid || !adjusted[i].valid) continue;
    const Eigen::Vector3d at = alignment.truth_from_result * adjusted[i].center();
    if (!alignment.fits[pair++] && (at - given[i].center()).norm() > least)
      wrong.push_back(static_cast<int>(i));
  }
  if (kOfThese * (pairs.size() - fitting.size()) <= pairs.size()) return fitting;
  wrong.clear();
  return pairs;
}

}  // namespace

bool BesideGiven::agrees() const {
  constexpr double kMostTurn = 5, kMostDistance = 0.1;
  return turn_deg < kMostTurn && distance < kMostDistance;
}

std::optional<BesideGiven> beside_given(const std::vector<Camera>& adjusted,
                                        const std::vector<Camera>& given) {
  const std::vector<CameraPair> all = valid_pairs(adjusted, given);
  if (all.size() < 3) return std::nullopt;
  BesideGiven beside;
  const std::vector<CameraPair> pairs = without_wrong(adjusted, given, all, beside.wrong);
  const Eigen::Affine3d given_from_adjusted = align_with_turns(pairs);
  const Centres centres = centres_of(pairs);
  beside.scale = scale_of(given_from_adjusted);
  beside.turn_deg = median_turn(pairs, given_from_adjusted) * 180 / M_PI;
  beside.distance = rms_distance(centres, given_from_adjusted) / spread_of(centres);
  if (!(beside.scale > 0 && std::isfinite(beside.scale) && std::isfinite(beside.distance)))
    return std::nullopt;
  return beside;
}

Eigen::Affine3d back_to_given(const std::vector<Camera>& adjusted, const std::vector<Camera>& given) {
  const std::vector<CameraPair> pairs = valid_pairs(adjusted, given);
  if (pairs.size() < 2) return Eigen::Affine3d::Identity();
  const RobustAlignment alignment = align_robustly(pairs);
  const std::vector<CameraPair> fitting = fitting_of(pairs, alignment);
  const Eigen::Affine3d similarity = align_with_turns(fitting);
  // Centres that lie nearly in one place tell no scale: there the adjustment's noise would shrink the scene.
  constexpr double kMostDistance = 0.1;  // of the centres' spread
  const Centres centres = centres_of(fitting);
  const bool tells = similarity.matrix().allFinite() && scale_of(similarity) > 0 &&
                     rms_distance(centres, similarity) < kMostDistance * spread_of(centres);
  return tells ? similarity : Eigen::Affine3d::Identity();
}

std::vector<Camera> with_lenses_of(const std::vector<Camera>& adjusted, std::vector<Camera> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Eigen::Isometry3d pose = given[i].cam_from_world;
    given[i] = adjusted[i];
    given[i].cam_from_world = pose;
  }
  return given;
}

}  // namespace vggt
