#pragma once
#include <cstddef>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/match_input.h"
#include "app/events/events.h"
#include "app/scene/dense_maps.h"
#include "io/scene/camera.h"

namespace vggt {

/// Of each frame the first one that shows the same, to some hundredths of a pixel of the network's image, in
/// an original of the same size and EXIF camera: mostly itself. Only frames whose cameras are valid are
/// copies, or have some. Throws Stopped.
std::vector<std::size_t> first_copies(const MatchInput& input, const std::vector<Camera>& cameras,
                                      const Events& events);

/// The cameras with those of copies not valid.
std::vector<Camera> without_copies(std::vector<Camera> cameras, const std::vector<std::size_t>& first);

/// Gives copies the lens of the frame that they show, unless intrinsics are known, and where the scene has
/// changed also its pose and depth; the summary tells their number. given: their cameras as they were.
void give_to_copies(const std::vector<std::size_t>& first, const std::vector<Camera>& given,
                    bool lens_is_known, DenseMaps& depth, AdjustedScene& scene);

}  // namespace vggt
