#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// Drops anchors that stay at one place of the image in three and more other frames, where the others
/// move: of a logo, a subtitle, the rim of black bars, or of the camera's own mount. What is far away moves
/// too, as the camera turns. Returns the share of the sightings that it drops.
double drop_overlays(const std::vector<Anchor>& anchors, std::vector<Sighting>& sightings);

}  // namespace vggt
