#pragma once
#include <optional>

#include "app/export/exported_images.h"
#include "app/run/run_plan.h"
#include "io/frames/frames.h"
#include "model/memory_plan.h"

namespace vggt {

/// The request with number and size of the frames.
MemoryRequest request_for(MemoryRequest request, const FrameSet& frames);

/// The images that exports name; nothing without exports. Throws std::invalid_argument where they cannot be
/// named.
std::optional<ExportedImages> exported_images(const RunPlan& plan, const FrameSet& frames);

/// Throws std::invalid_argument where --host-memory leaves too little for these frames and their maps, or for
/// so many bytes of them, and there is no --scratch.
void check_stored(const RunPlan& plan, const FrameSet& frames);
void check_stored(const RunPlan& plan, const MemoryRequest& request, int64_t bytes);

/// Before any image is decoded: throws std::invalid_argument, with the least --host-memory that would do,
/// where not even one image at its own size, or the picture, fits what images may take of --host-memory, or
/// as check_stored(); with_network: or where the network does not fit, or as check_stored(), for the frames
/// that headers tell of.
void check_image_memory(const RunPlan& plan, bool with_network);

}  // namespace vggt
