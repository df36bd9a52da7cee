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

/// Where there is no --scratch, frames and maps have of --host-memory what they take: of these frames, or so
/// many bytes.
void hold_in_memory(RunPlan& plan, const FrameSet& frames);
void hold_in_memory(RunPlan& plan, const StoredBytes& bytes);

/// Of a source that tells only in the end how many frames it has: while it is read the network is not at
/// work, and the frames may have most of what images leave.
void lend_to_frames(RunPlan& plan);

/// Before any image is decoded: as hold_in_memory() for the frames that headers tell of; of a video, whose
/// frames only decoding counts, not so. Throws std::invalid_argument, with the least --host-memory that would
/// do, where not even one image at its own size, or the picture, fits what images may take of --host-memory;
/// with_network: or where the network does not fit. Where opening a video alone might take more, the header
/// of its container has to tell; the budget that is named then counts the codec's usual format if the header
/// names none.
void plan_image_memory(RunPlan& plan, bool with_network);

}  // namespace vggt
