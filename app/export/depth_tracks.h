#pragma once
#include <cstdint>
#include <vector>

#include "app/export/export_input.h"

namespace vggt {

/// Of all frames together, about.
constexpr int kMostTracks = 100'000;

/// What the tracks of a scene without matches take while they are exported. pixels: of the network's image.
int64_t depth_track_bytes(int64_t frames, int64_t pixels);

/// Tracks of a scene without matches: pixels of an even grid of each frame whose depth two other frames or
/// more agree with. A frame sees the point where the cameras and the depth of the grid's frame put it; the
/// point is the mean of where the depths of all frames that see it put theirs, so that its error says how
/// well they agree. Needs input.depth and read_rgb; masked pixels have no part. Memory: two maps for each
/// thread. Throws what reading and input.work throw.
std::vector<Track> depth_tracks(const ExportInput& input);

/// The tracks by depth that are to be exported beside input.tracks. Where these are none: all of
/// depth_tracks(), or none without input.depth or read_rgb. Else the best of them, within 0.2 network pixels,
/// in frames that fewer than 3000 observations hold, until those have 3000: a bundle adjustment that knows
/// the tracks alone would move them.
std::vector<Track> tracks_beside(const ExportInput& input);

}  // namespace vggt
