#include "app/run/run_network.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <optional>
#include <string>

#include "app/run/device.h"
#include "app/run/frame_input.h"
#include "app/run/memory_limits.h"

namespace vggt {
namespace {

const char* unit_of(const std::string& stage) {
  if (stage == "aggregator") return "blocks";
  return stage == "camera_head" || stage == "track_head" ? "iterations" : "frames";
}

}  // namespace

at::Tensor query_tensor(const ModelPlan& plan) {
  if (!plan.options.heads.tracks) return {};
  TORCH_CHECK(!plan.queries.empty(), "the tracker runs, but the plan has no query points");
  const auto count = static_cast<int64_t>(plan.queries.size());
  at::Tensor queries = at::empty({count, 2}, at::kFloat);
  std::copy_n(plan.queries.front().data(), 2 * count, queries.data_ptr<float>());
  return queries;
}

NetworkCall call_of(const Vggt& model) {
  return {[&model](const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                   const Observer& observer, const RunOptions& options) {
    return model.run(frames, query_points, sink, observer, options);
  }};
}

RunReport run_network(const NetworkCall& network, const ModelPlan& plan, const RunOptions& options,
                      const FrameSet& frames, const Sink& sink, StageTimes& times, const Events& events) {
  const at::Device device = plan.options.device;
  const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
  times.restart();
  std::string stage;
  const auto observe = [&](const StageReport& report) {
    events.check_stop();
    if (!report.warning.empty()) events.warn(report.warning);
    if (report.total == 0) return;
    if (report.stage != stage) {
      stage = report.stage;
      give_back_memory();
    }
    wait_for(device);  // a GPU runs behind: times, progress and stopping would be those of the launches
    if (report.done > 0) times.count(report.stage);
    events.progress(report.stage, unit_of(report.stage), report.done, report.total);
  };
  return network.run(provide_frames(frames), query_tensor(plan), sink, observe, options);
}

}  // namespace vggt
