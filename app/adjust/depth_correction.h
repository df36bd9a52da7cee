#pragma once
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/image_matcher.h"

namespace vggt {

/// Depth maps after a bundle adjustment, [H,W] a frame: each is bent smoothly to what its anchors' depths
/// became (`before`: their logarithms as they were), as far as sightings say so; then it is averaged with
/// what the frames of its pairs say of its pixels, where both nearly agree. Values that are not positive
/// numbers stay as they are.
std::vector<std::vector<float>> correct_depth(const MatchInput& input, const Bundle& bundle,
                                              const std::vector<double>& before,
                                              const std::vector<View>& views,
                                              const std::vector<std::pair<int, int>>& pairs);

}  // namespace vggt
