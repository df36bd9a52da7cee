#pragma once
#include <Eigen/Geometry>
#include <optional>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"

namespace vggt {

/// Where the scene is to lie, and how large it is.
struct PlacementPlan {
  std::string align_file;                  // empty: nothing is aligned
  std::vector<FrameCamera> align_cameras;  // what it holds
  double scale = 1;
  bool upright = false;
};

/// Reads the poses. Throws as read_pose_file(), naming the option.
PlacementPlan plan_placement(const std::string& align_file, std::optional<double> scale, bool upright);

/// A Sim(3) that moves the network's world, and what it does.
struct Placement {
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  std::string summary;  // such as "aligned to 25 poses of poses.tum"
};

/// Before the network runs. Throws std::invalid_argument where the poses to align to name frames that there
/// are not, or are of fewer than two frames.
void check_placement(const PlacementPlan& plan, const FrameSet& frames);

/// Warns where coordinates so far from the origin lose digits in clouds, whose numbers are floats: 1e-4 of
/// `unit`, which is about the scene's size.
void warn_of_rounding(const std::string& option, double far, double unit, const Events& events);

/// Of the network's cameras, one for each frame, or none without the camera head. Says in one line each what
/// was done. Nothing where the world stays as it is. Throws std::invalid_argument where the cameras with a
/// pose are too few, or stand in one place, so that no scale follows from them.
std::optional<Placement> place(const PlacementPlan& plan, const FrameSet& frames,
                               const std::vector<Camera>& cameras, const Events& events);

}  // namespace vggt
