#pragma once
#include <cstddef>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/match_input.h"
#include "app/events/events.h"
#include "app/scene/dense_maps.h"
#include "io/scene/camera.h"

namespace vggt {

/// Of each frame the first one whose image of the network is the same, to some hundredths of a pixel, with an
/// original of the same size and EXIF camera: mostly itself. lens_is_known: the given lens has to be the
/// same, too. Only frames whose cameras are valid are copies, or have some; there are none where there are
/// masks. Throws Stopped.
std::vector<std::size_t> first_copies(const MatchInput& input, const std::vector<Camera>& cameras,
                                      bool lens_is_known, const Events& events);

/// The cameras with those of copies not valid.
std::vector<Camera> without_copies(std::vector<Camera> cameras, const std::vector<std::size_t>& first);

/// Gives copies the lens of the frame that they show, and where the scene has changed its pose and depth;
/// they join its tracks at its pixels. They are weak, and in a group, as that is, and no pair of frames has
/// them; the summary tells their number. given: their cameras as they were.
void give_to_copies(const std::vector<std::size_t>& first, const std::vector<Camera>& given, DenseMaps& depth,
                    AdjustedScene& scene);

}  // namespace vggt
