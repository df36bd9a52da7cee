#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "io/scene/tracks.h"

namespace vggt {

/// The anchors that two or more other frames show within `most_error` pixels of where the bundle puts them,
/// as points with these observations and the colour of the anchor's pixel.
std::vector<Track> found_tracks(const MatchInput& input, const Bundle& bundle, double most_error);

}  // namespace vggt
