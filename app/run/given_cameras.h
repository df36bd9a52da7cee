#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "app/adjust/bundle_setup.h"
#include "app/options/options.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"

namespace vggt {

/// What --intrinsics and --poses tell of the cameras.
struct GivenCameras {
  std::string intrinsics_name, poses_name;     // as typed, for messages; empty: not given
  std::vector<FrameCamera> intrinsics, poses;  // of files; one camera without a name is that of all frames
};

/// Reads the files. Throws std::invalid_argument naming option and file, for numbers that are no camera too.
GivenCameras plan_given(const Options& options);

/// What is known for the adjustment, and the model it uses. wanted: whether there is one. Throws
/// std::invalid_argument where --refine or --camera do not fit to what is given, or nothing is adjusted.
AdjustOptions plan_adjustment(const Options& options, const GivenCameras& given, bool wanted);

/// Before the network runs. Throws std::invalid_argument where a frame lacks what the others are given, has
/// another size than its intrinsics are for, or where a file names frames that there are not.
void check_given(const GivenCameras& given, const FrameSet& frames);
/// What is odd about intrinsics that may be right, for a person; empty: nothing.
std::string doubt_of_intrinsics(const GivenCameras& given, const FrameSet& frames);

/// Gives the network's cameras, one for each frame and with their maps, the known intrinsics, if there are
/// any. The network takes the middle of its image for where the camera looks, so that cameras whose principal
/// point lies elsewhere are turned until the middle's ray is where it was. Returns these rays, of length 1,
/// by frame, for axis_factors(); none without intrinsics.
std::vector<Eigen::Vector3d> take_intrinsics(const GivenCameras& given, const FrameSet& frames,
                                             std::vector<Camera>& cameras);
/// Gives them the known poses, if there are any. Returns by what depth is to be multiplied, so that it fits
/// to the poses' scale; 1 without poses.
double take_poses(const GivenCameras& given, const FrameSet& frames, std::vector<Camera>& cameras);

/// By what depth along an axis of length 1 is multiplied at each pixel to be the camera's, [H·W]; empty where
/// the axis is the camera's own.
std::vector<float> axis_factors(const Camera& camera, const Eigen::Vector3d& axis);

}  // namespace vggt
