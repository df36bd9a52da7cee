#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// Takes a tenth of the sightings out, always the same ones of an anchor and a frame.
std::vector<Sighting> hold_out(std::vector<Sighting>& sightings);

/// The distance of each sighting and its anchor from each other's epipolar lines, the mean of both, in
/// pixels. Only poses and lenses of `cameras` count, and the anchors' pixels.
std::vector<double> epipolar_errors(const Bundle& cameras, const std::vector<Anchor>& anchors,
                                    const std::vector<Sighting>& sightings);

}  // namespace vggt
