#pragma once
#include <string>
#include <vector>

#include "model/memory_plan.h"
#include "model/rates.h"

// How long a run takes: arithmetic alone, without tensors or devices.
namespace vggt {

/// Predicted seconds of one stage, as in StageReport.
struct StageSeconds {
  std::string stage;
  double compute = 0;
  double copy = 0;     // of the plan's traffic
  double seconds = 0;  // the larger of both where copies run beside the computation, else their sum
};

/// The stages that run, in their order, named as in StageReport.
std::vector<std::string> stages_of(const MemoryPlan& plan);

/// Seconds of every stage that runs, in their order. plan: plan_memory()'s of this request. Loading weights
/// and what the program does with the results are left out.
std::vector<StageSeconds> predict_seconds(const MemoryRequest& request, const MemoryPlan& plan,
                                          const Rates& rates);

/// Leaves out what the first layers of the trunk take, so many that a checkpoint has of them.
void leave_out_layers(int64_t finished, const MemoryRequest& request, std::vector<StageSeconds>& stages);
/// And the memory and files of the stages that are finished with them.
void leave_out_layers(int64_t finished, const MemoryRequest& request, MemoryPlan& plan);

double total_seconds(const std::vector<StageSeconds>& stages);

}  // namespace vggt
