#include "app/run/plan_table.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/run/process_memory.h"
#include "model/ranks/shares.h"
#include "model/vggt.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

template <class... Values>
std::string print(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

const char* place_name(Place place) {
  switch (place) {
    case Place::device:
      return "device";
    case Place::host:
      return "host";
    case Place::file:
      return "file";
  }
  return "";
}

/// As a person would call it; on the CPU all memory is one.
const char* place_text(Place place, bool on_gpu) {
  if (place == Place::file) return "files";
  return !on_gpu ? "memory" : place == Place::host ? "host" : "GPU";
}

/// The two kinds of blocks are rows of their own; the second has the seconds of both.
std::string timed_stage(const std::string& stage) {
  return stage == "frame_block" || stage == "global_block" ? "aggregator" : stage;
}

std::string seconds_text(double seconds) {
  return print(seconds < 10 ? "%.2f" : "%.1f", seconds);
}

/// Of this stage; empty where they are not known, or stand in a later row.
std::string stage_seconds_text(const NetworkPlan& plan, std::size_t row) {
  const std::vector<StageMemory>& stages = plan.memory.stages;
  const std::string stage = timed_stage(stages[row].stage);
  if (row + 1 < stages.size() && timed_stage(stages[row + 1].stage) == stage) return "";
  const auto found = std::ranges::find(plan.seconds, stage, &StageSeconds::stage);
  return found == plan.seconds.end() ? "" : seconds_text(found->seconds);
}

std::string kind_text(const NetworkPlan& plan) {
  return plan.request.merge ? "merged" : "exact";
}

std::string total_text(const NetworkPlan& plan) {
  const MemoryPlan& memory = plan.memory;
  std::string text;
  if (plan.request.gpu) {
    text = print("%.2f GiB on the GPU, %.2f on the host", gib(memory.peak_bytes()), gib(memory.host_bytes));
  } else {
    text = print("%.2f GiB of memory", gib(memory.peak_bytes() + memory.host_bytes));
  }
  if (memory.scratch_bytes > 0) text += print(", %.2f in files", gib(memory.scratch_bytes));
  if (!memory.fits) text += ": does not fit";
  if (!plan.seconds.empty()) text += "; " + seconds_text(total_seconds(plan.seconds)) + " s";
  return text;
}

std::string range_text(const LikelySeconds& likely) {
  const std::string least = seconds_text(likely.least), most = seconds_text(likely.most);
  return seconds_text(likely.middle) + (least == most ? "" : " (" + least + " to " + most + ")");
}

/// Of stages that are not known, and of the run with them; empty where there are none.
std::string likely_text(const PlanComparison& plans) {
  std::string stages, totals;
  for (const auto& [stage, likely] : plans.beside.likely)
    stages += (stages.empty() ? "" : ", ") + stage + " " + range_text(likely);
  for (const NetworkPlan* one : {&plans.plan, &plans.other}) {
    if (const auto likely = likely_run_seconds(*one, plans.beside))
      totals += (totals.empty() ? "; the run " : ", ") + kind_text(*one) + " " + range_text(*likely);
  }
  return stages.empty() ? "" : stages + totals + " s, as of other frames";
}

/// Of what the run does beside the network, and in all; no lines where nothing is known.
std::vector<std::string> beside_rows(const PlanComparison& plans) {
  std::vector<std::string> rows;
  std::string stages, totals;
  for (const auto& [stage, seconds] : plans.beside.stages) {
    stages += (stages.empty() ? "" : ", ") + stage + " " + seconds_text(seconds);
  }
  const auto remark = [](const std::string& what, const std::vector<std::string>& of) {
    std::string names;
    for (const std::string& stage : of) names += (names.empty() ? "" : ", ") + stage;
    return names.empty() ? names : " (" + what + ": " + names + ")";
  };
  if (!stages.empty())
    rows.push_back("beside:    " + stages + " s" + remark("as on another machine", plans.beside.guessed) +
                   remark("not known until it has run once", plans.beside.unknown) +
                   remark("not predicted", plans.beside.left_out));
  for (const NetworkPlan* one : {&plans.plan, &plans.other}) {
    if (const auto seconds = run_seconds(*one, plans.beside))
      totals += (totals.empty() ? "" : ", ") + kind_text(*one) + " " + seconds_text(*seconds) + " s";
  }
  if (!totals.empty()) rows.push_back("the run:   " + totals);
  if (const std::string likely = likely_text(plans); !likely.empty()) rows.push_back("likely:    " + likely);
  return rows;
}

/// What each rank has of so many things: "7 + 6 + 7".
std::string shares_text(int64_t total, int64_t ranks) {
  const Shares shares{total, ranks};
  std::string text;
  for (int64_t rank = 0; rank < ranks; ++rank)
    text += (rank > 0 ? " + " : "") + std::to_string(shares.count(rank));
  return text;
}

Json ranks_json(const MemoryRequest& request) {
  const Shares frames{request.frames, request.ranks}, heads{request.config.num_heads, request.ranks};
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < request.ranks; ++rank)
    ranks.push_back({{"frames", frames.count(rank)}, {"heads", heads.count(rank)}});
  return ranks;
}

Json json_of(const LikelySeconds& likely) {
  return {{"middle", likely.middle}, {"least", likely.least}, {"most", likely.most}};
}

Json likely_json(const BesideSeconds& beside) {
  Json json = Json::object();
  for (const auto& [stage, likely] : beside.likely) json[stage] = json_of(likely);
  return json;
}

Json json_of(const BesideSeconds& beside) {
  Json json = beside.stages.empty() ? Json() : Json::object();
  for (const auto& [stage, seconds] : beside.stages) json[stage] = seconds;
  return json;
}

Json json_of(const NetworkPlan& plan, const BesideSeconds& beside) {
  const MemoryPlan& memory = plan.memory;
  Json json = {{"merged", plan.request.merge.has_value()},
               {"frames", plan.request.frames},
               {"height", plan.request.height},
               {"width", plan.request.width},
               {"fits", memory.fits},
               {"device_bytes", memory.peak_bytes()},
               {"weight_bytes", memory.weight_bytes},
               {"host_bytes", memory.host_bytes},
               {"scratch_bytes", memory.scratch_bytes},
               {"residual", place_name(memory.schedule.residual)},
               {"maps", place_name(memory.schedule.maps)},
               {"qkv", place_name(memory.schedule.qkv)},
               {"streamed_weights", memory.schedule.stream_weights},
               {"streamed_attention", memory.stream.reason.empty() ? Json() : Json(memory.stream.reason)}};
  if (plan.request.ranks > 1) json["ranks"] = ranks_json(plan.request);
  json["memory"] = Json::array();
  for (const StageMemory& stage : memory.stages) {
    json["memory"].push_back({{"stage", stage.stage},
                              {"device_bytes", memory.peak_bytes(stage.stage)},
                              {"to_device_bytes", stage.traffic.to_device},
                              {"to_host_bytes", stage.traffic.to_host},
                              {"from_scratch_bytes", stage.traffic.from_scratch},
                              {"to_scratch_bytes", stage.traffic.to_scratch}});
  }
  json["seconds"] = plan.seconds.empty() ? Json() : Json::object();
  for (const StageSeconds& stage : plan.seconds) {
    json["seconds"][stage.stage] = {
        {"compute", stage.compute}, {"copy", stage.copy}, {"seconds", stage.seconds}};
  }
  json["total_seconds"] = plan.seconds.empty() ? Json() : Json(total_seconds(plan.seconds));
  const auto run = run_seconds(plan, beside);
  json["run_seconds"] = run ? Json(*run) : Json();
  const auto likely = likely_run_seconds(plan, beside);
  json["likely_run_seconds"] = likely ? json_of(*likely) : Json();
  return json;
}

/// How many states of the trunk a run with checkpoints keeps at once, even where it takes a quarter longer
/// than predicted.
int states_kept(const std::vector<StageSeconds>& stages) {
  double trunk = 0;
  for (const StageSeconds& stage : stages) {
    if (stage.stage == "patch_embed" || stage.stage == "aggregator") trunk += stage.seconds;
  }
  return static_cast<int>(std::min(2.0, 1.25 * trunk / CheckpointOptions().seconds));
}

/// Bytes of frames and maps beside which the network does not fit: while its trunk runs, while its dense
/// heads do, or afterwards, when only its weights are held.
int64_t stored_beside(const MemoryLimits& limits, const MemoryRequest& request) {
  constexpr int64_t kAny = int64_t{1} << 60;
  const auto fits_with = [&](int64_t MemoryBudget::*more) {
    MemoryRequest tried = request;
    tried.budget.*more = kAny;
    return plan_memory(tried).fits;
  };
  if (fits_with(&MemoryBudget::more_in_trunk)) return limits.stored.in_trunk;
  return fits_with(&MemoryBudget::more_in_heads) ? limits.stored.in_heads : limits.stored.all;
}

}  // namespace

NetworkPlan plan_network(const MemoryRequest& request, const std::optional<Rates>& rates) {
  NetworkPlan plan{request, plan_memory(request), {}};
  if (!rates) return plan;
  plan.seconds = predict_seconds(request, plan.memory, *rates);
  if (request.checkpoints) {
    plan.request.trunk_states = states_kept(plan.seconds);
    plan.memory = plan_memory(plan.request);
  }
  return plan;
}

void check_fits(const RunPlan& run, const NetworkPlan& plan) {
  const MemoryRequest& request = plan.request;
  check_tracker_takes(request);
  if (request.frames < request.ranks)
    throw std::invalid_argument("frames: " + std::to_string(request.frames) + " are fewer than the " +
                                std::to_string(request.ranks) + " ranks that share them");
  const MemoryLimits& limits = run.limits;
  if (plan.memory.fits && limits.stored.all <= limits.storage.bytes) return;
  // Where neither way fits, the one that takes less is merging; else the run may only take this one.
  MemoryRequest told = request;
  if (run.given.merge == "auto") told.merge = run.model.options.merge;
  MemoryPlan least = plan_memory(told);
  if (least.fits) {
    told = request;
    least = plan.memory;
  }
  // How little would do depends on the limit, by which the plan chooses what files take.
  const auto enough = least_host_memory(limits, told, run.given.merge == "auto");
  MemoryRequest without_stored = told;
  without_stored.budget.host = limits.for_network();
  if (enough && limits.stored.all > 0 && plan_memory(without_stored).fits) {
    const auto megabytes = [](int64_t bytes) { return std::to_string(bytes / 1'000'000) + " MB"; };
    const int64_t stored = stored_beside(limits, told);
    throw std::invalid_argument("host-memory: frames and maps take " + megabytes(stored) +
                                ", and beside them the network needs more than the " +
                                megabytes(std::max<int64_t>(0, limits.shared() - stored)) +
                                " that are left; --scratch lets files take a part, or give at least " +
                                *enough);
  }
  if (enough)
    throw std::invalid_argument("memory: " + std::to_string(request.frames) +
                                " frames need more of the host's memory than the budget leaves" +
                                (told.budget.scratch ? "" : "; --scratch lets files take a part") +
                                "; --host-memory " + *enough + " would do");
  throw std::invalid_argument(budget_refusal(told, least));
}

void warn_of_memory(const RunPlan& run, const NetworkPlan& plan, const ProcessBytes& process,
                    int64_t ranks_here, const Events& events) {
  const int64_t scratch_bytes = process.scratch;
  if (!run.limits.host) {
    const int64_t network = plan.memory.host_bytes + (plan.request.gpu ? 0 : plan.memory.peak_bytes()),
                  bytes =
                      process.host - std::min(process.host, resident_bytes()) + (ranks_here - 1) * network;
    const auto free = free_host_bytes();
    if (free && bytes > *free) {
      events.warn(
          print("the run takes %.1f GiB more of the host's memory, and %.1f are free; --host-memory and "
                "--scratch bound it",
                gib(bytes), gib(*free)));
    }
  }
  if (const int64_t room = room_beside(run, process.held); process.adjusting > room) {
    events.warn(print(
        "--host-memory may have no room for the adjustment, whose matches and equations can take %.0f MB "
        "where %.0f are left; cameras and depth then stay as the network gives them",
        process.adjusting / 1e6, room / 1e6));
  }
  if (const int64_t room = room_beside(run, process.held); process.refining > room)
    events.warn(
        print("--host-memory may have no room for the refinement, which takes %.0f MB where %.0f are left; "
              "%s",
              process.refining / 1e6, room / 1e6,
              run.adjust.must_refine ? "the run then ends there" : "depth then stays as it was adjusted"));
  if (scratch_bytes == 0 || !run.limits.network.scratch) return;
  std::error_code error;
  const auto room = std::filesystem::space(*run.limits.network.scratch, error);
  if (!error && static_cast<uint64_t>(scratch_bytes) > room.available) {
    const auto available = static_cast<int64_t>(room.available);
    const bool small = scratch_bytes < int64_t{1} << 30;
    events.warn((small ? print("the run's files take %.1f MB, and %.1f are free in ", scratch_bytes / 1e6,
                               available / 1e6)
                       : print("the run's files take %.2f GiB, and %.2f are free in ", gib(scratch_bytes),
                               gib(available))) +
                run.limits.network.scratch->string());
  }
}

std::optional<double> run_seconds(const NetworkPlan& network, const BesideSeconds& beside) {
  if (network.seconds.empty() || !beside.all || !beside.left_out.empty()) return std::nullopt;
  return total_seconds(network.seconds) + beside.total();
}

std::optional<LikelySeconds> likely_run_seconds(const NetworkPlan& network, const BesideSeconds& beside) {
  const std::optional<LikelySeconds> likely = beside.likely_total();
  if (!likely || network.seconds.empty() || !beside.left_out.empty()) return std::nullopt;
  return likely->plus(total_seconds(network.seconds));
}

PlanComparison compare_plans(const MemoryRequest& request, const MergeOptions& merging,
                             const std::optional<Rates>& rates) {
  MemoryRequest other = request;
  other.merge = request.merge ? std::nullopt : std::optional(merging);
  return {plan_network(request, rates), plan_network(other, rates)};
}

std::vector<std::string> plan_rows(const PlanComparison& plans, const ProcessBytes& process) {
  const NetworkPlan& plan = plans.plan;
  const Schedule& schedule = plan.memory.schedule;
  const bool on_gpu = plan.request.gpu.has_value();
  const auto where = [&](Place place) { return std::string(place_text(place, on_gpu)); };
  std::vector<std::string> rows = {"where:     tokens " + where(schedule.residual) + ", maps for the heads " +
                                   where(schedule.maps) + ", q/k/v " + where(schedule.qkv) + ", weights " +
                                   where(schedule.stream_weights ? Place::host : Place::device)};
  if (const MemoryRequest& request = plan.request; request.ranks > 1)
    rows.push_back("ranks:     frames " + shares_text(request.frames, request.ranks) + ", heads " +
                   shares_text(request.config.num_heads, request.ranks) +
                   "; below is what the one with most takes" +
                   print(", beside about %.2f GiB of NCCL's", gib(plans.nccl_bytes)));
  if (!plan.memory.stream.reason.empty()) rows.push_back("streamed:  " + plan.memory.stream.reason);
  rows.push_back("stage             peak   copy in  copy out     files  seconds     (GiB)");
  for (std::size_t i = 0; i < plan.memory.stages.size(); ++i) {
    const StageMemory& stage = plan.memory.stages[i];
    const Traffic& traffic = stage.traffic;
    rows.push_back(print("  %-12s %7.2f   %7.2f   %7.2f   %7.2f  %7s", stage.stage.c_str(),
                         gib(plan.memory.peak_bytes(stage.stage)), gib(traffic.to_device),
                         gib(traffic.to_host), gib(traffic.from_scratch + traffic.to_scratch),
                         stage_seconds_text(plan, i).c_str()));
    rows.back().erase(rows.back().find_last_not_of(' ') + 1);
  }
  for (const NetworkPlan& one : {plan, plans.other}) rows.push_back(kind_text(one) + ": " + total_text(one));
  for (const std::string& row : beside_rows(plans)) rows.push_back(row);
  rows.push_back(print("process:   %.2f GiB of the host's memory in all", gib(process.host)));
  if (process.scratch > 0) rows.back() += print(", %.2f in files", gib(process.scratch));
  return rows;
}

std::string plan_json(const PlanComparison& plans, const ProcessBytes& process) {
  return Json{{"plan", json_of(plans.plan, plans.beside)}, {"other", json_of(plans.other, plans.beside)},
              {"beside_seconds", json_of(plans.beside)},   {"beside_guessed", plans.beside.guessed},
              {"beside_unknown", plans.beside.unknown},    {"beside_likely", likely_json(plans.beside)},
              {"beside_left_out", plans.beside.left_out},  {"nccl_bytes", plans.nccl_bytes},
              {"process_host_bytes", process.host},        {"process_scratch_bytes", process.scratch}}
             .dump(2) +
         "\n";
}

}  // namespace vggt
