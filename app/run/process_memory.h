#pragma once
#include <cstdint>
#include <string>

#include "app/events/events.h"
#include "app/run/plan_table.h"
#include "app/run/run_plan.h"

// What a run takes of the host's memory beside the network's tensors.
namespace vggt {

/// Most bytes of the host's memory that the process holds at once, its libraries' code included: with the
/// network at work, or with the scene that comes of it. original_width, original_height: pixels of a frame's
/// source. What an export reads of the sources is left out.
int64_t predict_host_peak(const RunPlan& plan, const NetworkPlan& network, int64_t original_width,
                          int64_t original_height);

/// Such as "process:   0.86 GiB of the host's memory in all".
std::string host_peak_row(int64_t bytes);

/// Warns where a run without --host-memory takes more of the host's memory than is free, and where the folder
/// of --scratch has less room than the network's files take.
void warn_of_memory(const RunPlan& run, const NetworkPlan& plan, const Events& events);

}  // namespace vggt
