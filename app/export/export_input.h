#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "app/scene/dense_maps.h"
#include "app/scene/for_each_frame.h"
#include "app/scene/frame_points.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

/// What exports are made of.
struct ExportInput {
  const std::vector<FrameCamera>& cameras;     // of all frames; none without the camera head
  const std::vector<Track>& tracks;            // by matches; none where the scene was not adjusted
  std::optional<std::filesystem::path> cloud;  // a PLY that write_ply() or PlyWriter wrote
  const DenseMaps* depth = nullptr;            // with its confidence, [H,W] network pixels
  std::vector<FrameView> seen;                 // of each frame
  int network_width = 0;
  ReadMask read_mask = {};  // empty: there are no masks
  FrameWork work = {};
  ReadRgb read_rgb = {};               // of the network's images; empty: no tracks by depth
  std::size_t image_bytes = SIZE_MAX;  // that images of their own size may take at once; one always may
};

}  // namespace vggt
