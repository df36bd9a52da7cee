#pragma once
#include <vector>

#include "app/events/events.h"
#include "app/scene/align_cameras.h"
#include "io/scene/camera.h"

namespace vggt {

/// Areas under the accuracy curve up to 5, 15, 30 degrees, in [0,1]: means of the cumulative 1-degree
/// histogram, as in VGGT's evaluation (test_co3d.py).
struct Auc {
  double at_5 = 0, at_15 = 0, at_30 = 0;
};

/// How far trajectories are from the true ones.
struct TrajectoryError {
  double scale = 1;     // of the Sim(3) that aligns the camera centres; mean over scenes
  double ate_rmse = 0;  // of the aligned centres, units of the truth; mean over scenes
  // Relative poses of all pairs of frames of all scenes, the later one seen from the earlier one, degrees.
  double median_rotation = 0, median_translation_direction = 0;
  Auc auc;              // of max(rotation, translation direction), the direction signed: 0 to 180 degrees
  Auc auc_either_sign;  // with opposite directions as equal, as VGGT's published figures
};

/// Of every pair of frames of a scene: errors of the later camera's pose, seen from the earlier one, degrees.
struct PairErrors {
  std::vector<double> rotation, translation_direction;  // the direction signed: 0 to 180
};

/// A pair of frames that truly did not move has no direction error; one that did not move in the result only
/// is 90 degrees off. Throws Stopped.
PairErrors pair_errors(const std::vector<CameraPair>& cameras, const Events& events);
/// Whether all true cameras stand in one place, so that no direction is wrong.
bool truth_stands_still(const std::vector<CameraPair>& cameras);

/// Over all scenes, each of at least 2 frames in their order. Throws as align(), and Stopped.
TrajectoryError trajectory_error(const std::vector<std::vector<CameraPair>>& scenes, const Events& events);

}  // namespace vggt
