#pragma once
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "app/scene/dense_maps.h"
#include "io/scene/camera.h"

namespace vggt {

/// Makes depth maps, [H,W] a frame, those after a bundle adjustment. Each map is bent smoothly to what its
/// anchors' depths became, as far as their sightings can be trusted; `before` holds the logarithms of these
/// depths as they were. Then each map is averaged with what the frames of its `pairs` say of its pixels,
/// where both nearly agree. Values that are not positive numbers stay as they are. The maps lie in the
/// input's space once more meanwhile. Throws Stopped.
void correct_depth(const MatchInput& input, DenseMaps& depth, const Bundle& bundle,
                   const std::vector<double>& before, const std::vector<Camera>& cameras,
                   const std::vector<std::pair<int, int>>& pairs, const Events& events);

}  // namespace vggt
