#pragma once
#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "io/frames/frames.h"

namespace vggt {

/// The frames of a run, with a warning for each that had to be skipped, after a check that they fit the rest
/// of the plan: the picture must not lie among them, the query points must lie in the first of them. Throws
/// as load_frames(), and std::invalid_argument for what does not fit.
FrameSet read_frames(const RunPlan& plan, const Events& events);

}  // namespace vggt
