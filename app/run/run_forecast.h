#pragma once
#include <cstdint>
#include <vector>

#include "app/events/events.h"
#include "app/run/plan_table.h"
#include "app/run/reconstruct.h"
#include "app/run/resume.h"
#include "app/run/stage_history.h"
#include "app/run/stage_times.h"
#include "model/vggt.h"

namespace vggt {

/// How the network of a run works, and what the run is to take, once its frames are loaded.
struct RunForecast {
  RunOptions options;
  MemoryRequest request;  // of the frames, as `options` say
  NetworkPlan network;    // its seconds by the rates, and by earlier runs
  ProcessBytes process;
  BesideSeconds beside;

  double measuring = 0;                       // seconds that measuring the machine's rates took, of the run
  std::vector<StageSeconds> by_rates = {};    // the network's seconds by the rates alone
  std::vector<StageWork> works = {};          // beside the network; none where other runs share the time
  std::vector<StageWork> network_works = {};  // of the network, where no rates tell what it takes
  bool compares_network = false;  // whether what its stages take more than by the rates tells of other runs
};

/// Whether a run takes so long that measuring the machine's rates is worth its seconds. request: with sizes.
/// is_limited: by --host-memory, which a large network's few frames on a CPU may need for themselves.
bool is_worth_rates(const MemoryRequest& request, bool is_limited);

/// Settles how a run merges and where it keeps what, and measures the machine's rates where that is worth it.
/// With a warning where memory may not suffice. resume: the run's folder, or null. ranks_here: of this
/// machine. Throws as check_fits(), and Stopped.
RunForecast forecast_run(const RunPlan& plan, const LoadedFrames& loaded, Resume* resume,
                         const RunParts& parts, int64_t ranks_here, const Events& events);

/// Keeps what a run that ended well took, for later forecasts. is_adjusted: false also where an adjustment
/// was given up, which tells nothing of others. loaded: the model that the run loaded itself, or null.
void learn_from(const RunPlan& plan, const RunForecast& forecast, const LoadedModel* loaded, bool is_adjusted,
                const StageTimes& times);

}  // namespace vggt
