#pragma once
#include <string>
#include <vector>

#include "app/adjust/image_matcher.h"
#include "app/events/events.h"

namespace vggt {

constexpr std::size_t kMostAdjusted = 512;  // frames: the adjustment's matrix is dense

/// Cameras and depth maps after an adjustment, and one line about it.
struct AdjustedScene {
  bool changed = false;                   // false: too little to go by; cameras and depth are as they were
  std::vector<Camera> cameras;            // empty where nothing changed
  std::vector<std::vector<float>> depth;  // of each frame [H,W]; empty where nothing changed
  std::string summary;                    // such as "adjusted to 9446 matches in 111 pairs of frames"
};

/// Fits the network's cameras and depth to what the images show: matches between frames that see the same
/// (image_matcher.h), then a bundle adjustment, both twice for few frames; depth maps follow
/// (depth_correction.h). Cameras get square pixels of the original image, the median focal length where
/// theirs is near it, and the principal point in the middle of the original where that is known. The first
/// valid camera stays. Scenes of more than kMostAdjusted frames, or of fewer than two valid cameras, stay as
/// they are; then input.depth is not looked at. Reports the progress of the stage "adjustment" in pairs,
/// throws Stopped.
AdjustedScene adjust_scene(const MatchInput& input, const std::vector<Camera>& cameras, const Events& events);

}  // namespace vggt
