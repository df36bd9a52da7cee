#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"
#include "app/cli/merge_report.h"
#include "app/run/run_plan.h"

namespace vggt {

/// Runs the network on the plan's frames, exactly and then merged, and compares what it gives: cameras, and
/// depth where the weights have it. Frames are read once, weights for each of the two. repeat: runs of each,
/// of which the fastest is timed; 0: one, and two on a GPU, whose first run also measures kernels. Holds both
/// sides' depth and confidence, 16 bytes a pixel. Throws as reconstruct(), and std::invalid_argument for one
/// frame, a plan that does not merge, and weights without a camera head.
MergeReport compare_merging(RunPlan plan, int64_t repeat, const Events& events);

/// `vggt-recon bench merge`: makes the process' settings, compares, prints the table, and writes it as JSON
/// where asked.
void run_bench_merge(const MergeBenchCommand& command, Console& console);

}  // namespace vggt
