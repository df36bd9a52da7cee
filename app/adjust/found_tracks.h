#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "io/scene/tracks.h"

namespace vggt {

/// The anchors that two or more other frames show where the bundle puts them, as points with these
/// observations and the colour of the anchor's pixel. Observations are within 0.7 pixels of the images that
/// were compared, or three times their median distance, if that is more: programs that weigh all alike then
/// find the same cameras.
std::vector<Track> found_tracks(const MatchInput& input, const Bundle& bundle);

}  // namespace vggt
