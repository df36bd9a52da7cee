#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "app/scene/for_each_frame.h"
#include "app/scene/frame_points.h"
#include "io/frames/frames.h"

namespace vggt {

/// Reads a map of a frame, [H,W]; NaN where it is not known. Called from several threads.
using ReadMap = std::function<void(int frame, std::span<float> values)>;

/// The network's images and maps of all frames.
struct MapReaders {
  int width = 0, height = 0;
  std::vector<FrameView> views;
  ReadRgb read_rgb;
  ReadMap read_depth, read_confidence;  // both, or none where there are no maps
};

/// A frame at a small size: a value for each cell, row by row.
struct SmallFrame {
  std::vector<float> depth;  // at the cells' middles, NaN where it is not known; empty: there are no maps
  std::vector<float> confidence;  // the same, of a part of the cells
  std::vector<float> detail;      // brightness against that around the cell
  float contrast = 0;             // standard deviation of the cells' brightness, of 255
};

/// Frames of `width` × `height` cells of `cell` pixels a side.
struct SmallFrames {
  int width = 0, height = 0, cell = 1;
  std::vector<SmallFrame> frames;

  /// The network pixel in the middle of a cell.
  float pixel(int index) const { return static_cast<float>(index * cell + cell / 2); }
  /// Where a network pixel lies among the cells' middles.
  float place(float pixel) const { return (pixel - static_cast<float>(cell / 2)) / static_cast<float>(cell); }
};

/// Reduces all frames. Throws what the readers and work.check_stop throw.
SmallFrames small_frames(const MapReaders& readers, const FrameWork& work);

}  // namespace vggt
