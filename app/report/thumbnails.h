#pragma once
#include <cstdint>
#include <vector>

#include "app/health/small_frames.h"
#include "app/scene/for_each_frame.h"

namespace vggt {

/// Small JPEGs: of each frame its image, and where there is depth to the right of it depth and confidence in
/// colours.
struct Thumbnails {
  int width = 0, height = 0;  // of one of the pictures that lie side by side
  int panels = 1;
  std::vector<std::vector<uint8_t>> jpegs;  // of every frame; empty: not shown
};

/// The more frames, the smaller: all files together take about `budget_bytes`. Of more than `most` frames
/// only so many, evenly chosen, are shown. Throws what the readers throw.
Thumbnails make_thumbnails(const MapReaders& readers, const FrameWork& work,
                           int64_t budget_bytes = 12'000'000, int most = 2000);

}  // namespace vggt
