#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "app/run/stage_history.h"
#include "model/cost_plan.h"
#include "model/memory_plan.h"

// What a run of the network would take, for `plan`, --dry-run and the report.
namespace vggt {

/// A request with its plan and, where the rates are known, its seconds.
struct NetworkPlan {
  MemoryRequest request;
  MemoryPlan memory;
  std::vector<StageSeconds> seconds;  // by the rates, if they are known; then more by earlier runs
};
NetworkPlan plan_network(const MemoryRequest& request, const std::optional<Rates>& rates);

/// Throws std::invalid_argument for a plan that does not fit, with the --host-memory that would do, for fewer
/// frames than ranks, and for frames that are too small for the tracker.
void check_fits(const RunPlan& run, const NetworkPlan& plan);

/// What the process takes at most at once, bytes: see predict_process().
struct ProcessBytes {
  int64_t host = 0, scratch = 0;
  int64_t held = 0;       // of the host's, beside what matches, points or exports take for a while
  int64_t adjusting = 0;  // at least, for matches and equations of frames that all see the same
  int64_t refining = 0;   // at least
  int64_t loaded = 0;     // of the host's: code and tables that a process's first run loads
  int64_t common = 0;     // of the host's: what runs of a process have together, such as weights
};

/// Warns where a run without --host-memory takes more of the host's memory than is free, with what the
/// network takes of it for other ranks on this machine, where one with it may have no room for the
/// adjustment, and where the folder of --scratch has less room than the files take. ranks_here: on this
/// machine.
void warn_of_memory(const RunPlan& run, const NetworkPlan& plan, const ProcessBytes& process,
                    int64_t ranks_here, const Events& events);

/// Both ways of global attention. Of the two, `plan` is the one that was asked for.
struct PlanComparison {
  NetworkPlan plan;
  NetworkPlan other;          // exact where `plan` merges, else merged
  BesideSeconds beside = {};  // of the stages beside the network
  int64_t nccl_bytes = 0;     // of each GPU, where ranks share the run: nccl_device_bytes()
};
/// Of the whole run; nothing where some of its stages are not known.
std::optional<double> run_seconds(const NetworkPlan& network, const BesideSeconds& beside);
/// The same where some are not known, but what is likely of each is.
std::optional<LikelySeconds> likely_run_seconds(const NetworkPlan& network, const BesideSeconds& beside);

/// merging: how the other plan merges, where the request does not.
PlanComparison compare_plans(const MemoryRequest& request, const MergeOptions& merging,
                             const std::optional<Rates>& rates);

/// Line by line: where the plan keeps what; what each of several ranks has; each stage with its bytes, copies
/// and seconds, those of both kinds of blocks at the second; what either way takes in all; what is known of
/// the seconds beside the network, and of the whole run; and what the process takes in all.
std::vector<std::string> plan_rows(const PlanComparison& plans, const ProcessBytes& process);
/// The same as JSON.
std::string plan_json(const PlanComparison& plans, const ProcessBytes& process);

}  // namespace vggt
