#pragma once
#include <filesystem>
#include <vector>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "io/frames/frames.h"

namespace vggt {

/// The frames, with a warning for each that had to be skipped. Throws as load_frames(), and Stopped.
FrameSet read_frames(const FrameOptions& options, const Events& events);
/// Their sizes alone: read_rgb is empty, and images that only decoding shows to be damaged are among them.
FrameSet size_frames(FrameOptions options, const Events& events);

/// Throws std::invalid_argument where an output would replace a frame, or a mask in the folder `masks`.
void keep_frames(const FrameOptions& frames, const std::filesystem::path& masks,
                 const std::vector<std::filesystem::path>& outputs);

/// Throws std::invalid_argument where the frames do not fit the rest of the plan: the picture must not lie
/// among them, the poses to align to must be theirs, and the query points must lie in the first of them.
void check_frames(const RunPlan& plan, const FrameSet& frames);

}  // namespace vggt
