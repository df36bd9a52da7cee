#include "model/rate_probe.h"

#include <algorithm>
#include <chrono>

#include "model/random_weights.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace vggt {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::map<std::string, double>;

struct Enough {};  // thrown where a probe has seen what it is for

/// The seconds of stages and of the single blocks of one run.
class ProbeClock {
 public:
  ProbeClock(at::Device device, Until until) : device_(device), until_(until) {}

  void operator()(const StageReport& report) {
    synchronize(device_);
    const Clock::time_point now = Clock::now();
    if (report.tensor.defined()) {
      if (report.stage != "aggregator") return;
      seconds[report.name] = std::chrono::duration<double>(now - mark_).count();
      mark_ = Clock::now();
      if (until_ == Until::first_block && report.name == "global_block.0") throw Enough();
      return;
    }
    const bool is_dense =
        report.stage == "depth_head" || report.stage == "point_head" || report.stage == "track_head";
    if (until_ == Until::trunk && is_dense) throw Enough();
    if (report.stage != stage_) {
      stage_ = report.stage;
      begin_ = now;
    }
    const double passed = std::chrono::duration<double>(now - begin_).count();
    // The tracker says 0 before each chunk of feature maps and once more when it has them all.
    if (report.stage == "track_head" && report.done == 0) seconds["track_maps"] = passed;
    if (report.done == report.total) seconds[report.stage] = passed;
    if (until_ == Until::embedded && report.stage == "patch_embed" && report.done == report.total)
      throw Enough();
    mark_ = Clock::now();
  }

  Seconds seconds;

 private:
  at::Device device_;
  Until until_;
  std::string stage_;
  Clock::time_point begin_, mark_;
};

Config shallow(Config config, int64_t vit_depth, int64_t camera_trunk_depth) {
  config.depth = 2;  // the first layer is not kept, the second is
  config.intermediate_layers = {1, 1, 1, 1};
  config.vit_depth = vit_depth;
  config.camera_trunk_depth = std::min(camera_trunk_depth, config.camera_trunk_depth);
  return config;
}

}  // namespace

void synchronize([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

ProbeNetwork::ProbeNetwork(const Config& config, int64_t vit_depth, int64_t camera_trunk_depth,
                           const ModelOptions& options, const std::function<void()>& check_stop)
    : config_(shallow(config, vit_depth, camera_trunk_depth)),
      options_(options),
      check_stop_(check_stop),
      model_(config_, random_weights(config_, options.heads, 1), options) {}

Probe ProbeNetwork::fitted(Probe probe, int64_t max_bytes, int64_t least) const {
  if (!options_.device.is_cuda()) return probe;
  MemoryRequest request = memory_request(config_, options_);
  request.height = probe.rows * config_.patch_size;
  request.width = probe.columns * config_.patch_size;
  request.query_points = probe.queries;
  for (; probe.frames > least; probe.frames = std::max(least, probe.frames * 3 / 4)) {
    request.frames = probe.frames;
    if (plan_memory(request).peak_bytes() <= max_bytes) break;
  }
  return probe;
}

Seconds ProbeNetwork::time(const Probe& probe) const {
  // On the CPU a first run is slower by a share that shrinks with its length.
  constexpr double kLong = 0.1, kVeryLong = 0.5;
  int runs = 4;
  const int64_t height = probe.rows * config_.patch_size, width = probe.columns * config_.patch_size;
  at::Tensor images =
      at::randint(256, {1, 3, height, width}, at::kByte).repeat({probe.frames, 1, 1, 1});  // [S,3,H,W]
  // A long run fetches its frames beside the computation, which a probe is too short for.
  if (options_.device.is_cuda()) images = images.pin_memory();
  const FrameProvider frames{probe.frames, height, width,
                             [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
  at::Tensor queries;  // [Q,2]
  if (probe.queries > 0)
    queries = at::rand({probe.queries, 2}) *
              at::tensor({static_cast<float>(width - 1), static_cast<float>(height - 1)});
  std::map<std::string, std::vector<double>> all;
  for (int run = 0; run < runs; ++run) {
    const Clock::time_point begin = Clock::now();
    const Seconds seconds = run_once(frames, queries, probe.until);
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (run == 0 && options_.device.is_cpu() && passed > kLong) runs = passed > kVeryLong ? 1 : 2;
    if (run == 0 && runs > 1) continue;
    for (const auto& [name, value] : seconds) all[name].push_back(value);
  }
  Seconds medians;
  for (const auto& [name, values] : all) medians[name] = median(values);
  return medians;
}

Seconds ProbeNetwork::run_once(const FrameProvider& frames, const at::Tensor& queries, Until until) const {
  if (check_stop_) check_stop_();
  ProbeClock clock(options_.device, until);
  try {
    model_.run(frames, queries, {}, std::ref(clock));
  } catch (const Enough&) {
    synchronize(options_.device);
  }
  return clock.seconds;
}

}  // namespace vggt
