#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// Takes a tenth of the sightings out, always the same ones of an anchor and a frame.
std::vector<Sighting> hold_out(std::vector<Sighting>& sightings);

/// The median distance, in pixels, of an anchor and its sighting from each other's epipolar lines; needs at
/// least one sighting. Only poses and lenses of `cameras` count, and the anchors' pixels.
double epipolar_error(const Bundle& cameras, const std::vector<Anchor>& anchors,
                      const std::vector<Sighting>& sightings);

}  // namespace vggt
