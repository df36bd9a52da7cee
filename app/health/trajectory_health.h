#pragma once
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

/// How far each camera stands from the valid one before it in the sequence, as a share of the median of these
/// steps; NaN for the first, for invalid ones, and where nothing moves.
std::vector<double> steps_of(const std::vector<Camera>& cameras);

/// Frames whose camera leaves its neighbours in the sequence and is back in the next frame: a step that is
/// many times the usual one, there and back. Only where the cameras move steadily: photographs in any order
/// have no neighbours.
std::vector<int> jumps_of(const std::vector<Camera>& cameras);

/// What each frame's observations say: how many tracks it shows, and the mean distance in original pixels
/// between them and where the camera shows their points; NaN without any.
struct TrackFit {
  int tracks = 0;
  double error_px = 0;
};
std::vector<TrackFit> track_fit(const std::vector<Track>& tracks, const std::vector<Camera>& cameras);

}  // namespace vggt
