#pragma once
#include <cstddef>
#include <cstdint>

#include "app/export/export_input.h"
#include "app/export/export_plan.h"
#include "app/export/exported_images.h"
#include "io/files/staged_files.h"
#include "io/scene/exported_scene.h"

namespace vggt {

/// The scene in the pixels of its exported images. Without tracks by matches it has tracks by depth, and
/// without these some of the cloud's points.
ExportedScene exported_scene(const ExportInput& input, const ExportedImages& images);

/// The memory that writing one frame's image or map at its own size takes, in bytes: of the frame for which
/// it is the most. Throws as ExportedImages for files that cannot be read.
std::size_t most_export_bytes(const ExportPlan& plan, const ExportedImages& images, const FrameSet& frames);

/// The share of the pixels of undistorted images that the originals do not show, which are black: that of the
/// image with most of them, in [0,1].
double most_black_share(const ExportedImages& images, const std::vector<FrameCamera>& cameras);

/// What a .glb takes of a cloud of so many points, in bytes: the points that it holds, and its vertices.
int64_t glb_bytes(int64_t points);

/// Writes all that the plan names. images: none are needed by what it names. Throws std::system_error and
/// std::invalid_argument naming the file, and what check_stop throws.
void export_scene(const ExportPlan& plan, const ExportedImages& images, const ExportInput& input,
                  StagedFiles& files);

}  // namespace vggt
