#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/adjust/image_matcher.h"

namespace vggt {

constexpr std::size_t kMostAdjusted = 512;  // frames: the adjustment's matrix is dense

/// What became of cameras and depth maps, and one line about it.
struct AdjustedScene {
  bool changed = false;  // false: too little to go by, views and depth are as they were
  std::vector<View> views;
  std::vector<std::vector<float>> depth;  // of each frame [H,W]; empty where nothing changed
  std::string summary;
};

/// Leaves scenes of more than kMostAdjusted frames as they are, without a look at their depth. Else it
/// fits the network's cameras and depth to what the images show: matches between frames that see the same
/// (image_matches.h), then a bundle adjustment, twice; depth maps follow (depth_correction.h). Frames
/// whose focal lengths are near the median get that one. The first camera stays. progress(done,
/// total) counts pairs of frames, from the calling thread. Throws Stopped.
AdjustedScene adjust_scene(const MatchInput& input, const std::vector<View>& views,
                           const std::function<void(int done, int total)>& progress = {});

}  // namespace vggt
