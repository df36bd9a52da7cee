#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "io/scene/tracks.h"

namespace vggt {

/// The anchors that two or more other frames show where the bundle puts them, as points with these
/// observations and the colour of the anchor's pixel. Observations are within 2.5 times their median
/// distance, or a quarter of a pixel of the images that were compared, if that is more: programs that weigh
/// all alike then find nearly the same cameras.
std::vector<Track> found_tracks(const MatchInput& input, const Bundle& bundle);

}  // namespace vggt
