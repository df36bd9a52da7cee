#pragma once
#include <Eigen/Core>
#include <vector>

namespace vggt {

/// Where one camera stood, both world_from_cam.
struct PosePair {
  Eigen::Matrix4d result, truth;
};

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

/// The Sim(3) from the result's world to the true one that brings the camera centres together (Umeyama 1991).
/// Where these lie on a line or in a point, the cameras' rotations decide on the rest.
Eigen::Matrix4d align(const std::vector<PosePair>& poses);

/// Over all scenes, each of at least 2 poses in the order of the frames. A pair that truly did not move has
/// no direction error; one that only in the result did not move is 90 degrees off. Throws
/// std::invalid_argument for positions too large to multiply.
TrajectoryError trajectory_error(const std::vector<std::vector<PosePair>>& scenes);

}  // namespace vggt
