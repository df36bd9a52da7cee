#include "app/run/stage_history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "app/run/device.h"
#include "app/run/memory_limits.h"
#include "app/run/rates_cache.h"
#include "app/run/user_cache.h"
#include "attention/tune/autotune.h"

namespace vggt {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kMostAlike = 5, kMostRuns = 30, kMostKeys = 200;
constexpr double kMostSeconds = 1e7, kLeastUnits = 1e-6, kMostUnits = 1e18;
constexpr double kAlike = 1.25;  // numbers of units that differ by no more are as near
constexpr double kMuch = 4;      // those of other sources that differ by more tell less
// Before a run here tells. Seconds a unit on two cores of a Zen 5, from and to a disk that the system has in
// memory: these stages are small beside the network and the adjustment.
constexpr std::array<std::pair<std::string_view, double>, 6> kFirstRates{{{"frames", 6e-9},
                                                                          {"weights", 8e-10},
                                                                          {"scene", 1e-8},
                                                                          {"filters", 1e-11},
                                                                          {"health", 3e-9},
                                                                          {"write", 5e-8}}};
// Seconds of the stages of a network in which a process loads most of its kernels, and of those in which a
// first run of a size measures the plans of its attention, on an H100 or H200. The rates' own measurement
// covers global attention up to kMeasuredTokens.
constexpr std::array<std::pair<std::string_view, double>, 2> kFirstLoads{
    {{"patch_embed", 0.12}, {"depth_head", 0.1}}};
constexpr std::array<std::pair<std::string_view, double>, 2> kFirstOfSize{
    {{"patch_embed", 0.17}, {"aggregator", 0.22}}};
constexpr int64_t kMeasuredTokens = 16'000;
constexpr double kFewestThreads = 2, kMostThreads = 16;  // whose rates are known
constexpr double kElsewhereByThreads = -0.17;  // 16 of a Xeon beside StageWork's two, whose cores are faster
const char* const kFile = "stages.json";
const std::string kProgram = "vggt-recon " VGGT_VERSION "; ";

/// The key that was learned last is the last.
struct Learned {
  std::string key;
  std::vector<StageRun> runs;
};

bool possible(const StageRun& run) {
  return run.units >= kLeastUnits && run.units <= kMostUnits && run.seconds > -run.units &&
         run.seconds <= kMostSeconds;
}

/// Empty where the text is not a cache as this program writes it.
std::vector<Learned> learned_in(const std::string& cache) try {
  const Json json = Json::parse(cache);
  if (json.at("format") != kFormat) return {};
  std::vector<Learned> all;
  for (const Json& entry : json.at("stages")) {
    Learned learned{entry.at("key").get<std::string>(), {}};
    for (const Json& run : entry.at("runs")) {
      learned.runs.push_back({run.at("units").get<double>(), run.at("seconds").get<double>()});
      if (!possible(learned.runs.back())) return {};
    }
    all.push_back(std::move(learned));
  }
  return all;
} catch (const Json::exception&) {
  return {};
}

/// Keeps the last of them.
template <class T>
void keep_last(std::vector<T>& values, std::size_t most) {
  if (values.size() > most) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(most));
}

/// The cache's text.
std::string text_of(const std::vector<Learned>& all) {
  Json stages = Json::array();
  for (const Learned& learned : all) {
    Json entries = Json::array();
    for (const StageRun& run : learned.runs)
      entries.push_back({{"units", run.units}, {"seconds", run.seconds}});
    stages.push_back({{"key", learned.key}, {"runs", entries}});
  }
  return Json{{"format", kFormat}, {"stages", stages}}.dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

bool keeps(const RunPlan& plan) {
  return plan.model.autotune && !plan.checkpoint_seconds;
}

/// Of printable ASCII alone: names of processors may hold any bytes, which JSON would not give back.
std::string as_ascii(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string key_of(const RunPlan& plan, const StageWork& work, bool limited) {
  return as_ascii(kProgram + processor_name(at::kCPU) +
                  (limited && plan.limits.host ? "; limited memory" : "") +
                  (plan.memory.ranks > 1 ? "; " + std::to_string(plan.memory.ranks) + " ranks" : "") + "; " +
                  work.stage + ": " + work.kind + (work.source ? ", source " + *work.source : ""));
}

/// The key of runs of one architecture whose calls of attention have about the same sizes: each measured plan
/// holds for all of them.
std::string size_key(const RunPlan& plan, const MemoryRequest& request) {
  const std::string kind = rates_key(plan.model.config, plan.model.options) + ", " +
                           std::to_string(size_class(request.frames)) + " frames of " +
                           std::to_string(request.width) + "x" + std::to_string(request.height) +
                           (request.merge ? ", merged" : "");
  return key_of(plan, {"attention", kind, 1}, /*limited=*/false);
}

/// How far two numbers of units are apart: the logarithm of their ratio.
double distance(double units, double other) {
  return std::abs(std::log(units / other));
}

bool alike(double units, double other) {
  return distance(units, other) <= std::log(kAlike);
}

std::vector<StageRun> runs_of(const std::vector<Learned>& all, const std::string& key) {
  const auto found = std::ranges::find(all, key, &Learned::key);
  return found == all.end() ? std::vector<StageRun>() : found->runs;
}

/// Of each source whose key starts so the last of the runs whose units are the nearest.
std::vector<StageRun> runs_of_sources(const std::vector<Learned>& all, const std::string& start,
                                      double units) {
  std::vector<StageRun> runs;
  for (const Learned& learned : all) {
    if (!learned.key.starts_with(start) || learned.runs.empty()) continue;
    runs.push_back(
        *std::ranges::min_element(learned.runs.rbegin(), learned.runs.rend(), {},
                                  [&](const StageRun& run) { return distance(run.units, units); }));
  }
  return runs;
}

/// The middle of the rates of the runs that are no farther away. Of two in the middle the smaller: it is a
/// busy machine that makes a run odd.
double middle_rate(std::span<const StageRun> runs, std::span<const double> distances, double farthest) {
  std::vector<double> rates;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (distances[i] <= farthest) rates.push_back(runs[i].seconds / runs[i].units);
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>((rates.size() - 1) / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

/// Of two threads, to the power of the exponent.
double by_threads(int64_t threads, double exponent) {
  const double known = std::clamp(static_cast<double>(threads), kFewestThreads, kMostThreads);
  return std::pow(known / kFewestThreads, exponent);
}

/// The rate of a stage in one of the tables above.
std::optional<double> rate_in(std::span<const std::pair<std::string_view, double>> rates,
                              const std::string& stage) {
  const auto rate = std::ranges::find(rates, stage, &std::pair<std::string_view, double>::first);
  return rate == rates.end() ? std::nullopt : std::optional(rate->second);
}

/// limited: as for more_than_rates(). first: as for predict_beside(). least: seconds that a stage may take.
BesideSeconds predict(const RunPlan& plan, const std::vector<StageWork>& works, bool limited, bool first,
                      double least) {
  BesideSeconds beside;
  const auto path = user_cache_path(kFile);
  if (!path || !keeps(plan) || works.empty()) return beside;
  const std::vector<Learned> all = learned_in(read_cache(*path));
  const auto add = [&](const std::string& stage, const std::optional<double>& seconds) {
    const bool known = seconds && *seconds >= least && *seconds <= kMostSeconds;
    if (known) beside.stages.emplace_back(stage, *seconds);
    return known;
  };
  // Where no run had limited memory, others tell as much.
  const auto learned = [&](const StageWork& work) {
    const std::vector<StageRun> runs = runs_of(all, key_of(plan, work, limited));
    return runs.empty() ? runs_of(all, key_of(plan, work, /*limited=*/false)) : runs;
  };
  const auto likely = [&](StageWork work) -> std::optional<LikelySeconds> {
    if (work.elsewhere.empty() || work.units < kLeastUnits) return std::nullopt;
    std::vector<StageRun> runs;
    if (work.source) {
      work.source = "";  // with which all their keys begin
      runs = runs_of_sources(all, key_of(plan, work, limited), work.units);
      if (runs.empty()) runs = runs_of_sources(all, key_of(plan, work, /*limited=*/false), work.units);
    }
    const double factor = by_threads(working_threads(plan.frames.threads), kElsewhereByThreads);
    for (const double rate : work.elsewhere) {
      if (work.usual && runs.size() < work.elsewhere.size())
        runs.push_back({work.units, work.units * rate * factor});
    }
    return runs.empty() ? std::nullopt : std::optional(likely_seconds(runs, work.units));
  };
  for (const StageWork& work : works) {
    const bool can_be_known = work.comparable && work.units >= kLeastUnits;
    const std::vector<StageRun> runs = can_be_known ? learned(work) : std::vector<StageRun>();
    const auto rate = rate_in(kFirstRates, work.stage);
    bool known = false;
    if (work.alike > 0) {
      known = add(work.stage, seconds_by_alike(runs, work.units, work.alike));
    } else if (!runs.empty()) {
      known = add(work.stage, seconds_by(runs, work.units));
    } else if (can_be_known && first && work.usual && rate) {
      const double factor =
          work.stage == "frames" ? frames_by_threads(working_threads(plan.frames.threads)) : 1;
      known = add(work.stage, work.units * *rate * factor);
      if (known) beside.guessed.push_back(work.stage);
    }
    if (known) continue;
    beside.unknown.push_back(work.stage);
    if (const auto seconds = likely(work)) beside.likely.emplace_back(work.stage, *seconds);
  }
  beside.all = beside.unknown.empty();
  return beside;
}

}  // namespace

double frames_by_threads(int64_t threads) {
  return by_threads(threads, -0.65);
}

double seconds_by(std::span<const StageRun> runs, double units) {
  std::vector<double> distances;
  for (const StageRun& run : runs) distances.push_back(distance(run.units, units));
  return units * middle_rate(runs, distances, *std::ranges::min_element(distances) + std::log(kAlike));
}

std::optional<double> seconds_by_alike(std::span<const StageRun> runs, double units, double alike) {
  const bool has_alike = std::ranges::any_of(
      runs, [&](const StageRun& run) { return distance(run.units, units) <= std::log(alike) + 1e-9; });
  return has_alike ? std::optional(seconds_by(runs, units)) : std::nullopt;
}

std::vector<StageRun> runs_in_cache(const std::string& cache, const std::string& key) {
  return runs_of(learned_in(cache), key);
}

std::string cache_with_runs(const std::string& cache,
                            const std::vector<std::pair<std::string, StageRun>>& runs) {
  std::vector<Learned> all = learned_in(cache);
  std::erase_if(all, [](const Learned& learned) { return !learned.key.starts_with(kProgram); });
  for (const auto& [key, run] : runs) {
    if (!possible(run)) continue;
    const auto known = std::ranges::find(all, key, &Learned::key);
    Learned learned = known == all.end() ? Learned{key, {}} : std::move(*known);
    if (known != all.end()) all.erase(known);
    const auto is_alike = [&](const StageRun& other) { return alike(other.units, run.units); };
    while (std::ranges::count_if(learned.runs, is_alike) >= static_cast<std::ptrdiff_t>(kMostAlike))
      learned.runs.erase(std::ranges::find_if(learned.runs, is_alike));
    learned.runs.push_back(run);
    keep_last(learned.runs, kMostRuns);
    all.push_back(std::move(learned));
  }
  keep_last(all, kMostKeys);
  return text_of(all);
}

LikelySeconds likely_seconds(std::span<const StageRun> others, double units) {
  std::vector<double> distances;
  for (const StageRun& run : others) distances.push_back(distance(run.units, units));
  const double farthest = std::max(*std::ranges::min_element(distances) + std::log(kAlike), std::log(kMuch));
  LikelySeconds likely{units * middle_rate(others, distances, farthest), 1e300, 0};
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (distances[i] > farthest) continue;
    const double seconds = units * others[i].seconds / others[i].units;
    likely.least = std::min(likely.least, seconds);
    likely.most = std::max(likely.most, seconds);
  }
  return likely;
}

double BesideSeconds::total() const {
  double total = 0, frames = 0, weights = 0;
  for (const auto& [stage, seconds] : stages) {
    total += seconds;
    if (stage == "frames") frames = seconds;
    if (stage == "weights") weights = seconds;
  }
  return total - std::min(frames, weights);
}

std::optional<LikelySeconds> BesideSeconds::likely_total() const {
  if (unknown.empty() || likely.size() < unknown.size()) return std::nullopt;
  LikelySeconds sum;
  for (const auto& [stage, seconds] : likely) sum = sum.plus(seconds);
  return sum.plus(total());
}

BesideSeconds predict_beside(const RunPlan& plan, const std::vector<StageWork>& works, bool first) {
  return predict(plan, works, /*limited=*/true, first, /*least=*/0);
}

void add_more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                         std::vector<StageSeconds>& stages) {
  BesideSeconds more;
  for (const bool limited : {true, false}) {  // what a process does once is much the same
    if (more.stages.empty())
      more = predict(plan, more_than_rates(plan, request, stages, limited), limited, /*first=*/false,
                     /*least=*/-kMostSeconds);
  }
  const bool measures = keeps(plan) && plan.model.options.device.is_cuda(), loads = more.stages.empty();
  const bool is_first = measures && !has_size(plan, request);
  const int64_t patch = request.config.patch_size,
                tokens = request.frames *
                         (request.height / patch * (request.width / patch) + request.config.special_tokens());
  const bool is_long = tokens > kMeasuredTokens;
  for (StageSeconds& stage : stages) {
    const auto found = std::ranges::find(more.stages, stage.stage, &std::pair<std::string, double>::first);
    if (found != more.stages.end()) stage.seconds += found->second;
    if (measures && loads) stage.seconds += rate_in(kFirstLoads, stage.stage).value_or(0);
    if (is_first && (is_long || stage.stage != "aggregator"))
      stage.seconds += rate_in(kFirstOfSize, stage.stage).value_or(0);
  }
}

void forget_more_than_rates(const std::string& rates_key) {
  const auto path = user_cache_path(kFile);
  if (!path) return;
  std::vector<Learned> all = learned_in(read_cache(*path));
  const std::string kind = ": " + as_ascii(rates_key);
  const auto count =
      std::erase_if(all, [&](const Learned& learned) { return learned.key.find(kind) != std::string::npos; });
  if (count > 0) write_cache(*path, text_of(all));
}

bool has_size(const RunPlan& plan, const MemoryRequest& request) {
  const auto path = user_cache_path(kFile);
  return path && !runs_in_cache(read_cache(*path), size_key(plan, request)).empty();
}

void keep_size(const RunPlan& plan, const MemoryRequest& request) {
  const auto path = user_cache_path(kFile);
  if (!path || !keeps(plan) || has_size(plan, request)) return;
  write_cache(*path, cache_with_runs(read_cache(*path), {{size_key(plan, request), {1, 0}}}));
}

void keep_seconds(const RunPlan& plan, const std::vector<StageWork>& works,
                  const std::vector<std::pair<std::string, double>>& seconds) {
  const auto path = user_cache_path(kFile);
  if (!path || !keeps(plan) || works.empty()) return;
  std::vector<std::pair<std::string, StageRun>> runs;
  for (const StageWork& work : works) {
    const auto found = std::ranges::find(seconds, work.stage, &std::pair<std::string, double>::first);
    if (found != seconds.end() && work.comparable)
      runs.emplace_back(key_of(plan, work, /*limited=*/true), StageRun{work.units, found->second});
  }
  write_cache(*path, cache_with_runs(read_cache(*path), runs));
}

void keep_more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                          const std::vector<StageSeconds>& by_rates,
                          const std::vector<std::pair<std::string, double>>& seconds) {
  std::vector<std::pair<std::string, double>> more;
  for (const auto& [name, measured] : seconds) {
    const auto stage = std::ranges::find(by_rates, name, &StageSeconds::stage);
    if (stage == by_rates.end()) continue;
    const double change = measured - stage->seconds;
    more.emplace_back(name, plan.model.options.device.is_cuda() ? std::max(0.0, change) : change);
  }
  keep_seconds(plan, more_than_rates(plan, request, by_rates), more);
}

}  // namespace vggt
