#pragma once
#include <string>
#include <vector>

#include "io/scene_files.h"

namespace vggt {

/// How far a trajectory is from the true one.
struct TrajectoryError {
  int matched = 0, poses = 0, truth = 0;
  double scale = 1;     // of the Sim(3) that aligns the camera centres (Umeyama 1991)
  double ate_rmse = 0;  // of the aligned centres, units of the truth
  // Relative poses of all pairs of frames, degrees.
  double median_rotation = 0, median_translation_direction = 0;
  /// Area under the accuracy curve of max(rotation, translation direction) up to 5, 15, 30 degrees, in [0,1]:
  /// mean of the cumulative 1-degree histogram. As in VGGT's evaluation, opposite translation directions
  /// count as equal.
  double auc_5 = 0, auc_15 = 0, auc_30 = 0;
};

/// Matches poses of equal time (the nearest within a hundredth of the smallest step of the truth).
/// Throws std::invalid_argument if fewer than 2 match.
TrajectoryError trajectory_error(const std::vector<TumPose>& poses, const std::vector<TumPose>& truth);

/// A table for people.
std::string to_text(const TrajectoryError& error);
/// The same numbers as JSON; null for what is not finite.
std::string to_json(const TrajectoryError& error);

}  // namespace vggt
