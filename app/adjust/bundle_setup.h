#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "io/scene/camera.h"

namespace vggt {

/// What of the cameras is known beforehand.
enum class Known { no, nearly, exactly };

/// What is adjusted, and what is not.
struct AdjustOptions {
  /// Nothing: simple_pinhole, or simple_radial, radial or pinhole where the matches show that; of known
  /// intrinsics each camera's own.
  std::optional<CameraModel> model;
  Known intrinsics = Known::no;  // where they are known, cameras of one camera_id have the same
  /// Of intrinsics that are known nearly: a lens that tells nothing of its distortion, so that it is looked
  /// for.
  bool may_distort = false;
  Known poses = Known::no;
  /// The user asked for it: where memory runs out it throws instead of leaving the scene as it is.
  bool must = false;
  /// What the matches and the equations that come of them may take; where they need more, memory runs out.
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
};

/// Whether the matches decide on distortion and on a second focal length.
bool lenses_are_open(const AdjustOptions& options);

/// The lens of a camera, in pixels of the upright original.
Lens lens_of(const Camera& camera);
/// Of length 1, through the middle of the original: where the network takes the camera to look.
Eigen::Vector3d middle_ray(const Camera& camera);

/// The one focal length of a lens: the mean of both axes' logarithms, for a photograph's pixels are square
/// and the network's two focal lengths differ by up to 4 %.
double mean_focal(const Lens& lens);

/// The model that all lenses have to begin with; nothing where each camera has its own.
std::optional<CameraModel> model_of(const AdjustOptions& options);

/// Frames, poses and lenses to be adjusted, without anchors. Frames of one size and EXIF camera whose focal
/// lengths are nearly alike share one lens: square pixels (but for the model pinhole), the median focal
/// length, and the principal point in the middle. Known intrinsics stay as they are, but for what a model
/// that was asked for has no parameters for, and are shared as their camera_id says. The pose of the first
/// valid frame is not free, nor are poses that are known exactly; frames that are not valid have a lens and a
/// pose that nothing uses.
Bundle bundle_of(const MatchInput& input, const std::vector<Camera>& cameras, const AdjustOptions& options);

/// Where a lens has another focal length than the one that its frames' poses and depth belong to
/// (MatchFrame::guessed_focal), gives it that one, free: with it more matches are where they are looked for.
/// Returns whether there is such a lens.
bool take_guessed_focals(const MatchInput& input, const std::vector<Camera>& cameras, Bundle& bundle);

/// The same frames with the cameras as they were given: no lens is shared.
Bundle bundle_as_given(const std::vector<Camera>& cameras);

/// What poses and lenses are expected to be within.
BundlePriors priors_of(const std::vector<Camera>& cameras, const AdjustOptions& options);

/// The given cameras with the poses and the lenses of the bundle, valid ones only; `model` is that of all
/// lenses; nothing: each keeps its own.
std::vector<Camera> cameras_of(const Bundle& bundle, std::vector<Camera> given,
                               std::optional<CameraModel> model);

}  // namespace vggt
