#include "app/cli/bench_merge.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "app/cli/process.h"
#include "app/report/summary.h"
#include "app/run/attention_cache.h"
#include "app/run/device.h"
#include "app/run/model_loader.h"
#include "app/run/read_frames.h"
#include "app/run/run_network.h"
#include "app/scene/predicted_cameras.h"
#include "io/files/atomic_file.h"
#include "io/files/staged_files.h"

namespace vggt {
namespace {

/// What one way of running gave, and the seconds of its fastest run.
struct Side {
  Predictions predictions;
  std::vector<std::pair<std::string, double>> stage_seconds;
};

at::Tensor fp32(const at::Tensor& values) {
  return values.to(at::kCPU, at::kFloat).contiguous();
}

void take_maps(const at::Tensor& maps, std::vector<std::vector<float>>& to) {  // [F,H,W]
  const at::Tensor values = fp32(maps);
  for (int64_t i = 0; i < values.size(0); ++i) {
    const float* first = values[i].const_data_ptr<float>();
    to.emplace_back(first, first + values[i].numel());
  }
}

/// Takes what the network gives, and counts the seconds of its stages without those of taking it.
Sink sink_into(Predictions& predictions, const FrameSet& frames, StageTimes& times) {
  Sink sink;
  sink.cameras = [&](const CameraPrediction& p) {
    times.count("camera_head");
    const at::Tensor pose = fp32(p.pose_enc), extrinsic = fp32(p.extrinsic), intrinsic = fp32(p.intrinsic);
    predictions.cameras = cameras_from(pose.const_data_ptr<float>(), extrinsic.const_data_ptr<float>(),
                                       intrinsic.const_data_ptr<float>(), static_cast<int>(pose.size(0)),
                                       frames.width, frames.height);
    times.restart();
  };
  sink.depth = [&](const DensePrediction& p) {
    times.count("depth_head");
    take_maps(p.depth, predictions.depth);
    take_maps(p.depth_conf, predictions.confidence);
    times.restart();
  };
  return sink;
}

double sum(const std::vector<std::pair<std::string, double>>& stages) {
  double seconds = 0;
  for (const auto& [stage, of_stage] : stages) seconds += of_stage;
  return seconds;
}

Side run_side(const ModelPlan& plan, const FrameSet& frames, int64_t repeat, AttentionTuner* tuner,
              const Events& events) {
  ModelLoader loader(plan, tuner);
  const Vggt model = loader.wait(events);
  Side side;
  double fastest = std::numeric_limits<double>::infinity();
  for (int64_t run = 0; run < repeat; ++run) {
    side.predictions = {};
    StageTimes times;
    run_network(call_of(model), plan, {plan.options.merge, plan.options.budget}, frames,
                sink_into(side.predictions, frames, times), times, events);
    const double seconds = sum(times.stages());
    if (seconds < fastest) side.stage_seconds = times.stages();
    fastest = std::min(fastest, seconds);
  }
  return side;
}

/// Why global attention stays exact; empty: it does not.
std::string why_nothing_merges(const MergeReport& report, const MergeCounts& counts) {
  if (report.merging_blocks == 0) {
    return "--merge-start " + std::to_string(report.merge.start) + " lies behind the " +
           std::to_string(report.blocks) + " global blocks";
  }
  if (counts.most_merged == 0 || counts.destinations >= counts.tokens) {
    return "--merge-ratio " + std::to_string(report.merge.ratio) + " of " + std::to_string(counts.tokens) +
           " tokens leaves none to merge";
  }
  return "";
}

MergeReport report_of(const RunPlan& plan, const FrameSet& frames) {
  const Config& config = plan.model.config;
  MergeReport report;
  report.machine = device_name(plan.model.options.device);
  report.weights = plan.model.weights.path().filename().string();
  report.precision = precision_name(plan.model.options.precision);
  report.frames = static_cast<int64_t>(frames.frames.size());
  report.width = frames.width;
  report.height = frames.height;
  report.merge = *plan.model.options.merge;
  report.blocks = config.depth;
  report.merging_blocks = std::max<int64_t>(0, config.depth - report.merge.start);
  const MergeCounts counts =
      merge_counts(report.frames, report.height / config.patch_size, report.width / config.patch_size,
                   config.special_tokens(), report.merge);
  report.tokens = counts.tokens;
  report.nothing_merges = why_nothing_merges(report, counts);
  report.rows = report.nothing_merges.empty() ? counts.most_rows() : counts.tokens;
  return report;
}

}  // namespace

MergeReport compare_merging(RunPlan plan, int64_t repeat, const Events& events) {
  ModelOptions& options = plan.model.options;
  const std::optional<MergeOptions> merge = options.merge;
  if (!merge) throw std::invalid_argument("bench merge: the plan does not merge");
  if (!options.heads.camera) throw std::invalid_argument("bench merge: the weights have no camera head");
  const FrameSet frames = read_frames(plan.frames, events);
  if (frames.frames.size() < 2) {
    throw std::invalid_argument(
        "bench merge: 2 frames are needed, found one, which has no other to be compared with");
  }
  MergeReport report = report_of(plan, frames);
  if (repeat == 0) repeat = 2;  // the first one pays for what is made once
  TunedAttention tuned(options.device, plan.model.autotune);
  options.merge = std::nullopt;
  events.info("exact attention");
  const Side exact = run_side(plan.model, frames, repeat, tuned.tuner(), events);
  options.merge = merge;
  events.info("merged attention");
  const Side merged = run_side(plan.model, frames, repeat, tuned.tuner(), events);
  tuned.save();
  for (const auto& [stage, seconds] : exact.stage_seconds) {
    const auto same = std::ranges::find(merged.stage_seconds, stage, &std::pair<std::string, double>::first);
    report.stages.push_back({stage, seconds, same == merged.stage_seconds.end() ? 0 : same->second});
  }
  report.difference = difference(merged.predictions, exact.predictions, events);
  return report;
}

void run_bench_merge(const MergeBenchCommand& command, Console& console) {
  set_process_threads(command.options.threads);
  RunPlan plan = plan_measurement(command.options);
  set_process_precision(plan.model.options.precision);
  set_process_gpu_memory(plan.model.options.device, plan.limits.gpu_allocator);
  if (!command.json.empty()) {
    keep_inputs(command.options, plan.model.weights.path(), plan.frames, {command.json});
    check_writable_file(command.json);
  }
  const MergeReport report = compare_merging(std::move(plan), command.repeat, console.events());
  std::fputs(to_text(report).c_str(), stdout);
  if (!command.json.empty()) {
    write_atomically(command.json, [&](std::ostream& out) { out << to_json(report); });
  }
}

}  // namespace vggt
