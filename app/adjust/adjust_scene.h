#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "app/adjust/bundle_setup.h"
#include "app/adjust/match_input.h"
#include "app/events/events.h"
#include "app/scene/dense_maps.h"
#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

/// The longest side, in pixels, at which frames are matched: to that the gray copies of the originals are
/// reduced.
constexpr int kMatchingSide = 1600;

/// Cameras after an adjustment, and one line about it.
struct AdjustedScene {
  bool changed = false;  // false: poses and depth are as they were, and there are no tracks
  std::vector<Camera> cameras;
  bool leaves_poses_out = false;  // given ones, as they do not fit: poses are in the network's world
  bool guesses_focal = false;     // that of a lens is held at the network's: the matches do not tell it
  std::vector<int> wrong_poses;   // frames whose given poses, to be refined, do not fit where most others do
  std::vector<int> weak_frames;   // whose cameras few matches hold, or few of those that there are
  /// Groups of two and more frames that no matches link, or (groups_are_linked) a handful, which may be
  /// wrong: how they lie to each other is a guess. Empty where there is one, or where exact poses were given.
  std::vector<std::vector<int>> groups;
  bool groups_are_linked = false;
  std::vector<std::pair<int, int>> pairs;  // of frames that matches link
  std::vector<std::size_t> first;  // of each frame the one that it shows; empty where none was looked for
  std::vector<Track> tracks;       // points seen in three and more frames
  std::string summary;             // such as "adjusted to 9446 matches in 111 pairs of frames, ..."
};

/// Fits the network's cameras and depth to what the images show: matches between frames that see the same
/// (image_matcher.h), first at a small size and then at the originals' own, each followed by a bundle
/// adjustment; a frame most of whose matches are off may get another pose (frame_pose.h), and what pays is
/// freed (bundle_trials.h). Where few matches are found from given poses, it begins without them
/// (known_poses.h), as it does where poses that are nearly right would tear the scene; a warning says where
/// they do not fit. The values of `depth`, [H,W] a frame, follow (depth_correction.h). A tenth of the matches
/// is held out: where the adjusted cameras explain these less well than the given ones, or there are too few
/// matches, or fewer than two valid cameras, poses and depth stay. Lenses are those of bundle_setup.h all the
/// same, unless the matches say that these are worse than the given ones. Where memory runs out it begins
/// again with one pair of frames at once; where it runs out once more, poses and depth stay, both with a
/// warning; that is so at once where the equations would take more than options.most_bytes. Throws
/// std::bad_alloc instead where options.must, and where the depth is being written. Of frames that show the
/// same (copied_frames.h) the first is adjusted, and the others get its camera and depth, unless poses were
/// given. Reports the progress of the stages "adjustment, pass 1", 2, ... in pairs, throws Stopped.
AdjustedScene adjust_scene(const MatchInput& input, DenseMaps& depth, const std::vector<Camera>& cameras,
                           const AdjustOptions& options, const Events& events);

/// What the time of adjust_scene() grows with, before anything is known of the scene but the number of its
/// frames and of the pixels of their gray copies. The equations of hundreds of frames that all see the same
/// take longer.
double adjustment_work(int64_t frames, double gray_pixels);

/// What matches and equations of so many frames take that all see the same, in bytes, beside the images and
/// maps. gray_pixels: of one frame's gray copy. at_least: where memory is short.
int64_t adjustment_bytes(int64_t frames, int64_t gray_pixels, bool at_least = false);

}  // namespace vggt
