#pragma once
#include <cstdint>
#include <limits>
#include <optional>

#include "app/run/plan_table.h"
#include "app/run/run_plan.h"
#include "io/frames/frames.h"

// What a run takes of the host's memory beside the network's tensors.
namespace vggt {

/// What frames are made of: the pixels of the largest image, and the most bytes that it takes to make the
/// frame of one, 0 where its size is all that is known; and to read its mask.
struct FrameOrigin {
  int64_t width = 0, height = 0, bytes = 0, mask_bytes = 0;
  int64_t as_large = std::numeric_limits<int64_t>::max();  // how many of that size all images would make up
  std::optional<int64_t> gray = {};  // bytes of all gray copies; not set: all images are that large
  bool is_decoded = false;           // before the run, beside another one
};
FrameOrigin origin_of(const RunPlan& plan, const FrameSet& frames);

/// What the process holds at most at once. Of the host's memory, its libraries' code included: with the
/// sources while they are decoded, with the network at work, with the scene that comes of it, or with images
/// and maps while they are exported. Of scratch files: the network's, and what --host-memory does not hold of
/// frames, gray copies and maps.
ProcessBytes predict_process(const RunPlan& plan, const NetworkPlan& network, const FrameOrigin& origin);

/// What frames, gray copies, masks and maps take at once, in memory or scratch files: of these frames, or of
/// a request's, all from originals of one size.
StoredBytes stored_bytes(const RunPlan& plan, const FrameSet& frames);
StoredBytes stored_bytes(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin);

/// What the picture takes while it is drawn, but for the points; 0 without one.
int64_t picture_bytes(const RunPlan& plan);
/// How many of a cloud's points the picture is drawn of; held: as for room_beside().
int64_t drawn_points(const RunPlan& plan, int64_t points, int64_t held);

/// Whether depth is held beside what the cloud is made of.
bool holds_depth_apart(const RunPlan& plan);

/// What --host-memory leaves beside so many bytes (ProcessBytes::held): for the matches of an adjustment and
/// their equations, or for points while they are filtered. Without it there is no limit.
int64_t room_beside(const RunPlan& plan, int64_t held);

/// The plan's filters for so many points; they thin the points first where --host-memory does not hold all
/// that they need at once. in_memory: whether they are held there. held: as for room_beside().
CloudFilters filters_within(const RunPlan& plan, bool in_memory, int64_t points, int64_t held);

}  // namespace vggt
