#include "app/cli/bench_program.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "app/cli/bench_frames.h"
#include "app/cli/bench_libtorch.h"
#include "app/cli/process.h"
#include "app/run/device.h"
#include "app/run/reconstruct.h"
#include "attention/bench/attempt.h"
#include "attention/bench/print.h"
#include "io/files/scratch_folder.h"
#include "io/frames/image_writer.h"
#include "model/bench/torch_network.h"
#include "model/memory_plan.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kFrames = 12, kWidth = 640, kHeight = 480, kMostRuns = 3;

/// One run of the program.
struct ProgramRun {
  double seconds = 0;
  Report report;
};
using ProgramRuns = std::vector<ProgramRun>;

void write_frames(const fs::path& folder, const Events& events) {
  fs::create_directory(folder);
  for (int i = 0; i < kFrames; ++i) {
    events.check_stop();
    write_image(folder / formatted("%02d.jpg", i), kWidth, kHeight,
                room_picture(kWidth, kHeight, i / (kFrames - 1.0)));
  }
}

/// libtorch: with LibTorch's network.
ProgramRun run_once(const Options& options, bool libtorch, const Events& events) {
  const auto begin = std::chrono::steady_clock::now();
  const RunPlan plan = plan_run(options);
  set_process_precision(plan.model.options.precision);
  std::optional<LibTorchProgram> program;
  NetworkCall call;
  RunParts parts;
  if (libtorch) {
    call = program.emplace(plan).call();
    parts.network = &call;
  }
  ProgramRun run{0, reconstruct(plan, events, parts).report};
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (libtorch) {
    const auto weights =
        std::ranges::find(run.report.stage_seconds, "weights", &std::pair<std::string, double>::first);
    weights->second = program->weight_seconds();  // which pass beside other stages, as ours
  }
  return run;
}

/// Both sides in turns.
struct ProgramSides {
  ProgramRuns ours, theirs;
  std::string failure, left_out;  // of theirs: where both are empty it has run
};

/// Why LibTorch's network cannot run where ours has run; empty: it can.
std::string no_room(const Options& options, const Report& ours, const MemoryBudget& budget) {
  const RunPlan plan = plan_run(options);
  const ModelOptions& model = plan.model.options;
  const FrameProvider frames{kFrames, ours.network_height, ours.network_width, {}};
  const int64_t bytes = weight_bytes(plan.memory) + torch_network_bytes(plan.model.config, model, frames);
  return bytes > (model.device.is_cuda() ? budget.device : budget.host) ? kBeyondMemory : "";
}

ProgramSides run_sides(const Options& options, const Pace& pace, const MemoryBudget& budget,
                       const Events& events) {
  constexpr double kSlower = 1.5;  // that LibTorch's may be before anything is known of it
  ProgramSides sides;
  double round = 0;
  do {
    sides.ours.push_back(run_once(options, false, events));
    round = sides.ours.back().seconds;
    if (sides.ours.size() == 1) {
      sides.left_out = no_room(options, sides.ours.front().report, budget);
      if (kSlower * round > pace.left()) sides.left_out = kBeyondTime;
    }
    if (!sides.left_out.empty() || !sides.failure.empty()) continue;
    sides.failure = attempt([&] { sides.theirs.push_back(run_once(options, true, events)); });
    if (sides.failure.empty()) round += sides.theirs.back().seconds;
  } while (std::ssize(sides.ours) < kMostRuns && round < pace.left());
  return sides;
}

/// The run of median length; null where there is none.
const ProgramRun* median_of(ProgramRuns& runs) {
  if (runs.empty()) return nullptr;
  std::ranges::sort(runs, {}, &ProgramRun::seconds);
  return &runs[(runs.size() - 1) / 2];
}

void show_stages(const ProgramRun& ours, const ProgramRun* theirs, const std::string& left_out,
                 const ShowRow& show) {
  const auto show_row = [&](const std::string& stage, double seconds, std::optional<double> of_theirs) {
    ordered_json row = {{"stage", stage}, {"seconds", seconds}, {"share", seconds / ours.seconds}};
    if (!left_out.empty()) row["libtorch_left_out"] = left_out;
    if (of_theirs) row["libtorch_seconds"] = *of_theirs;
    if (of_theirs && seconds > 0) row["speedup"] = *of_theirs / seconds;
    show(row);
  };
  for (const auto& [stage, seconds] : ours.report.stage_seconds) {
    std::optional<double> of_theirs;
    if (theirs) {
      for (const auto& [name, same] : theirs->report.stage_seconds)
        if (name == stage) of_theirs = same;
    }
    show_row(stage, seconds, of_theirs);
  }
  show_row("total", ours.seconds, theirs ? std::optional(theirs->seconds) : std::nullopt);
}

}  // namespace

ordered_json bench_program(const std::string& device, const std::string& weights, Pace pace,
                           const MemoryBudget& budget, const Events& events, const ShowRow& show) {
  const ScratchFolder folder(fs::temp_directory_path());
  Options options;
  options.frames = (folder.path() / "frames").string();
  options.out = (folder.path() / "scene").string() + "/";
  options.device = device;
  options.weights = weights;
  options.merge = "off";       // LibTorch's network has none
  options.no_autotune = true;  // which would keep what it measures in the user's cache
  write_frames(options.frames, events);
  Events silent;
  silent.stop = events.stop;
  ProgramSides sides = run_sides(options, pace, budget, silent);
  const ProgramRun &median = *median_of(sides.ours), *theirs = median_of(sides.theirs);
  show_stages(median, theirs, sides.left_out, show);
  if (!sides.left_out.empty()) leave_out(show, {{"side", "LibTorch"}}, sides.left_out);
  ordered_json run = {{"frames", kFrames},
                      {"frame_width", kWidth},
                      {"frame_height", kHeight},
                      {"network_width", median.report.network_width},
                      {"network_height", median.report.network_height},
                      {"weights", fs::path(median.report.weights).filename().string()},
                      {"precision", median.report.precision},
                      {"points", median.report.points},
                      {"runs", sides.ours.size()}};
  if (theirs) run["libtorch_points"] = theirs->report.points;
  if (!sides.failure.empty()) run["libtorch_failure"] = sides.failure;
  return run;
}

}  // namespace vggt
