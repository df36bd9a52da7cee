#pragma once
#include "app/events/events.h"
#include "app/run/plan_table.h"
#include "app/run/run_plan.h"
#include "app/run/stage_work.h"

namespace vggt {

/// What a run would take, merged or exact as it would be, beside the other way. request: with number and size
/// of the frames. source: what these are read from. Where the plan allows it, measures this machine's rates
/// and those of the scratch folder. Tells `events` why it merges, where that was the program's choice.
PlanComparison compare_ways(const RunPlan& plan, MemoryRequest request, const FrameSource& source,
                            const Events& events);

}  // namespace vggt
