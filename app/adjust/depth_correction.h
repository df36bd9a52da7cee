#pragma once
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "io/scene/camera.h"

namespace vggt {

/// Depth maps after a bundle adjustment, [H,W] a frame. Each map is bent smoothly to what its anchors' depths
/// became, as far as their sightings can be trusted; `before` holds the logarithms of these depths as they
/// were. Then each map is averaged with what the frames of its `pairs` say of its pixels, where both nearly
/// agree. Values that are not positive numbers stay as they are. Throws Stopped.
std::vector<std::vector<float>> correct_depth(const MatchInput& input, const Bundle& bundle,
                                              const std::vector<double>& before,
                                              const std::vector<Camera>& cameras,
                                              const std::vector<std::pair<int, int>>& pairs,
                                              const Events& events);

}  // namespace vggt
