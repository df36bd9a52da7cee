#include "app/run/run_forecast.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "app/run/device.h"
#include "app/run/frame_input.h"
#include "app/run/image_memory.h"
#include "app/run/loaded_model.h"
#include "app/run/merging.h"
#include "app/run/plan_comparison.h"
#include "app/run/process_memory.h"
#include "app/run/rank_run.h"
#include "app/run/rates_cache.h"
#include "app/run/stage_work.h"

namespace vggt {
namespace {

constexpr int64_t kManyPatches = 20'000;
constexpr double kManyOperations = 1e13;  // half a minute of two cores

/// Bytes of the process's own memory that stay, as measured on an H200, by the network's precision.
struct Kept {
  int64_t half, other;
  int64_t of(Precision precision) const {
    return precision == Precision::bf16 || precision == Precision::fp16 ? half : other;
  }
};
// Where the plans of attention are measured, in a first run of a size; and the rates.
constexpr Kept kPlansMeasured{64'000'000, 6'000'000}, kRatesMeasured{170'000'000, 80'000'000};

/// Nothing unless all are known.
std::vector<StageSeconds> network_seconds(const BesideSeconds& by_runs) {
  std::vector<StageSeconds> stages;
  if (!by_runs.all) return stages;
  for (const auto& [stage, seconds] : by_runs.stages) stages.push_back({stage, seconds, 0, seconds});
  return stages;
}

/// With what other runs of the process hold: earlier ones have loaded what a run loads, and those at once are
/// not all at their peaks.
int64_t beside_other_runs(const ProcessBytes& process, const RunParts& parts, bool gpu) {
  const double share = gpu ? .4 : .75;  // of a run's own peak, as measured
  const auto others = static_cast<double>((parts.at_once - 1) * (process.host - process.common));
  return process.host + std::max<int64_t>(0, parts.left_in_memory - process.loaded) +
         static_cast<int64_t>(share * others);
}

}  // namespace

bool is_worth_rates(const MemoryRequest& request, bool is_limited) {
  const int64_t patch = request.config.patch_size,
                patches = request.frames * (request.height / patch) * (request.width / patch);
  if (request.gpu || is_limited || patches >= kManyPatches) return patches >= kManyPatches;
  const double numbers = static_cast<double>(weight_bytes(request)) / sizeof(float);  // each twice a patch
  return 2 * numbers * static_cast<double>(patches) >= kManyOperations;
}

RunForecast forecast_run(const RunPlan& plan, const LoadedFrames& loaded, Resume* resume,
                         const RunParts& parts, int64_t ranks_here, const Events& events) {
  const FrameSet& frames = loaded.frames;
  RunOptions options;
  options.group = parts.group;
  options.budget = parts.group ? smallest_budget(*parts.group, plan.limits.network) : plan.limits.network;
  if (options.budget.scratch) options.budget.scratch = loaded.space->folder().path();
  MemoryRequest request = request_for(plan.memory, frames);
  std::optional<Rates> rates = rates_for(plan.model, /*measure=*/false, events);
  const bool rates_are_known = rates.has_value();
  const bool measures =
      !rates && plan.model.autotune && is_worth_rates(request, plan.limits.host.has_value());
  StageTimes own_times;
  if (measures) rates = rates_for(plan.model, /*measure=*/true, events);
  request.budget = options.budget;
  add_scratch_rates(request, plan.model.autotune, rates);
  const double measuring = own_times.total();
  const bool runs_alone = parts.is_alone();
  // Measuring the rates loads what a run would load.
  const bool loads = runs_alone && !measures;
  MergeChoice merging = choose_merging(request, plan.given.merge, rates, [&](const auto& way, auto& seconds) {
    if (loads) add_more_than_rates(plan, way, seconds);
  });
  if (resume) {
    options.checkpoints = CheckpointOptions{resume->folder(), *plan.checkpoint_seconds};
    merging.merge = resume->merges(merging.merge.has_value()) ? request.merge : std::nullopt;
  }
  if (!merging.note.empty()) events.info(merging.note);
  options.merge = request.merge = merging.merge;
  NetworkPlan network = plan_network(request, rates);
  check_fits(plan, network);
  NetworkPlan rest = network;
  if (resume) leave_out_layers(resume->finished_layers(), request, rest.memory);
  FrameOrigin origin = origin_of(plan, frames);
  origin.is_decoded = parts.frames != nullptr;
  ProcessBytes process = predict_process(plan, rest, origin);
  if (request.gpu && runs_alone && plan.model.autotune && !has_size(plan, request))
    process.host += kPlansMeasured.of(plan.model.options.precision);
  if (rates && !rates_are_known) {
    if (request.gpu) process.host += kRatesMeasured.of(plan.model.options.precision);
    process.host = std::max(process.host, peak_host_bytes());  // measuring them may have taken the most
  }
  warn_of_memory(plan, network, process, ranks_here, events);

  RunForecast forecast{std::move(options), request, std::move(network), process, {}};
  forecast.by_rates = forecast.network.seconds;
  if (measures) forecast.measuring = measuring;
  if (runs_alone) forecast.works = stage_works(plan, request, source_of(plan.frames, frames));
  if (loads) add_more_than_rates(plan, request, forecast.network.seconds);
  if (loads && !rates && !resume) {
    forecast.network_works = network_works(plan, request, stages_of(forecast.network.memory));
    forecast.network.seconds = network_seconds(predict_beside(plan, forecast.network_works, /*first=*/false));
  }
  if (resume) leave_out_layers(resume->finished_layers(), request, forecast.network.seconds);
  forecast.beside = predict_beside(plan, forecast.works, rates.has_value());
  forecast.compares_network = loads && rates_are_known && !resume;
  forecast.process.host = beside_other_runs(forecast.process, parts, request.gpu.has_value());
  return forecast;
}

void learn_from(const RunPlan& plan, const RunForecast& forecast, const LoadedModel* loaded, bool is_adjusted,
                const StageTimes& times) {
  std::vector<std::pair<std::string, double>> seconds = times.stages();
  if (!is_adjusted)
    std::erase_if(seconds, [](const auto& stage) {
      return stage.first == "adjustment" || stage.first == "refinement";
    });
  keep_seconds(plan, forecast.works, seconds);
  const bool measured = loaded && loaded->measured_attention();
  if (!measured) keep_seconds(plan, forecast.network_works, times.stages());
  if (loaded && plan.model.options.device.is_cuda()) keep_size(plan, forecast.request);
  if (forecast.compares_network && !measured)
    keep_more_than_rates(plan, forecast.request, forecast.by_rates, times.stages());
}

}  // namespace vggt
