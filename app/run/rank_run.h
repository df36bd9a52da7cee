#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "model/ranks/group.h"

namespace vggt {

/// Sets up a plan for a run that so many ranks make together. Throws std::invalid_argument for what they
/// cannot do.
void share_among(RunPlan& plan, int64_t ranks);

/// What NCCL takes of each rank's GPU beside the plan, in bytes; 0 of a single one.
int64_t nccl_bytes(const RunPlan& plan);

/// Checks that all ranks have the same options, weights (a sample of them) and program, and a GPU each. Every
/// rank calls it first. Returns how many of them are on this rank's machine. Throws std::invalid_argument on
/// all of them.
int64_t agree(const RunPlan& plan, Group& group);

/// What rank 0 settles for all.
struct RankTask {
  int64_t frames = 0, height = 0, width = 0;
  bool merges = false;
  MemoryBudget budget;  // the smallest of all ranks'
};

/// Checks that all ranks have loaded the same weights, after agree(). Throws as that.
void compare_weights(Group& group, const WeightFile& weights);

/// The smallest of the ranks' budgets: rank 0 calls it before it plans.
MemoryBudget smallest_budget(Group& group, MemoryBudget own);
/// Rank 0 tells the others what to do; each gets the task with its own scratch folder.
RankTask share_task(Group& group, const RankTask& task);
/// After the run: what each rank took of its device, most of it, in bytes, by rank.
std::vector<int64_t> device_peaks(Group& group, at::Device device);

/// A run of a rank other than 0, which reads no frames and writes no files: returns when its part is done.
/// Throws as reconstruct().
void serve_rank(const RunPlan& plan, Group& group, const Events& events);

}  // namespace vggt
