#include "app/cli/plan_command.h"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/process.h"
#include "app/report/summary.h"
#include "app/run/device.h"
#include "app/run/image_memory.h"
#include "app/run/plan_comparison.h"
#include "app/run/process_memory.h"
#include "app/run/rank_run.h"
#include "app/run/read_frames.h"
#include "app/run/run_plan.h"
#include "io/files/atomic_file.h"
#include "io/files/staged_files.h"

namespace vggt {
namespace {

/// What frames are made of: the largest image, and all of them.
struct Sources {
  FrameOrigin largest;
  FrameSource all;
};

/// Sets number and size of the frames: those given, or those that --frames names. Frames that nobody has are
/// taken for photographs of the largest size that is kept.
Sources size_request(const PlanCommand& command, const RunPlan& plan, const Events& events,
                     MemoryRequest& request) {
  if (command.frame_count == 0) {
    const FrameSet frames = size_frames(plan.frames, events);
    request.frames = static_cast<int64_t>(frames.frames.size());
    request.width = frames.width;
    request.height = frames.height;
    return {origin_of(plan, frames), source_of(plan.frames, frames)};
  }
  const auto [width, height] = parse_picture_size(command.frame_size, "frame-size");
  const int64_t patch = plan.model.config.patch_size;
  if (width % patch != 0 || height % patch != 0) {
    throw std::invalid_argument("frame-size: " + command.frame_size + " is not of multiples of " +
                                std::to_string(patch));
  }
  request.frames = command.frame_count;
  request.width = width;
  request.height = height;
  const int64_t longer = plan.frames.gray_side,
                shorter = longer * std::min(width, height) / std::max(width, height);
  const auto of_all = [&](int64_t pixels) {
    return static_cast<double>(command.frame_count) * static_cast<double>(pixels);
  };
  const double gray = std::min(of_all(longer * shorter), static_cast<double>(plan.frames.gray_bytes));
  return {{longer, shorter}, {"jpg", of_all(std::max(longer * shorter, width * int64_t{height})), gray}};
}

/// Of what a run of these options does, what plan_measurement() leaves out.
std::vector<std::string> left_out(const Options& options) {
  std::vector<std::string> stages;
  if (!options.masks.empty()) stages.push_back("masks");
  if (!options.exports.empty()) stages.push_back("exports");
  if (!options.picture.empty()) stages.push_back("picture");
  if (options.report) stages.push_back("report page");
  if (!options.save_predictions.empty()) stages.push_back("predictions");
  return stages;
}

}  // namespace

void run_plan_command(const PlanCommand& command, Console& console) {
  const Events events = console.events();
  set_process_threads(command.options.threads);
  Options options = command.options;
  if (command.frame_count > 0) options.frames = "-";  // which is not read
  const std::vector<int> gpus = listed_gpus(options.device);
  if (!gpus.empty()) options.device = "cuda:" + std::to_string(gpus.front());
  RunPlan plan = plan_measurement(options, /*with_scene=*/true);
  if (gpus.size() > 1) share_among(plan, std::ssize(gpus));
  set_process_precision(plan.model.options.precision);
  set_process_gpu_memory(plan.model.options.device, plan.limits.gpu_allocator);
  if (!command.json.empty()) {
    keep_inputs(command.options, plan.model.weights.path(), plan.frames, {command.json});
    check_writable_file(command.json);
  }
  for (const std::string& note : plan.notes) events.info(note);
  MemoryRequest request = plan.memory;
  if (command.frame_count == 0) plan_image_memory(plan, /*with_network=*/false);
  const Sources sources = size_request(command, plan, events, request);
  hold_in_memory(plan, stored_bytes(plan, request, sources.largest));
  request.budget = plan.limits.network;
  PlanComparison plans = compare_ways(plan, request, sources.all, events);
  plans.beside.left_out = left_out(command.options);
  console.result(frames_text(static_cast<std::size_t>(request.frames), static_cast<int>(request.width),
                             static_cast<int>(request.height)) +
                 "; " + plan.model.weights.path().filename().string() + " on " +
                 device_name(plan.model.options.device) + " in " +
                 precision_name(plan.model.options.precision));
  const ProcessBytes process = predict_process(plan, plans.plan, sources.largest);
  for (const std::string& row : plan_rows(plans, process)) console.result(row);
  console.check_output();
  if (!command.json.empty())
    write_atomically(command.json, [&](std::ostream& out) { out << plan_json(plans, process); });
  check_fits(plan, plans.plan);
  warn_of_memory(plan, plans.plan, process, plan.memory.ranks, events);
}

}  // namespace vggt
