#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "app/export/export_plan.h"
#include "app/export/exported_images.h"
#include "app/scene/dense_maps.h"
#include "app/scene/for_each_frame.h"
#include "app/scene/frame_points.h"
#include "io/files/staged_files.h"
#include "io/scene/exported_scene.h"

namespace vggt {

/// What exports are made of.
struct ExportInput {
  const std::vector<FrameCamera>& cameras;     // of all frames; none without the camera head
  const std::vector<Track>& tracks;            // none where the scene was not adjusted
  std::optional<std::filesystem::path> cloud;  // a PLY that write_ply() or PlyWriter wrote
  const DenseMaps* depth = nullptr;            // with its confidence, [H,W] network pixels
  std::vector<FrameView> seen;                 // of each frame
  int network_width = 0;
  FrameWork work;
};

/// The scene in the pixels of its exported images. Without tracks it has some of the cloud's points.
ExportedScene exported_scene(const ExportInput& input, const ExportedImages& images);

/// Writes all that the plan names. images: none are needed by what it names. Throws std::system_error and
/// std::invalid_argument naming the file, and what check_stop throws.
void export_scene(const ExportPlan& plan, const ExportedImages& images, const ExportInput& input,
                  StagedFiles& files);

}  // namespace vggt
