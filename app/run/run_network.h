#pragma once
#include <functional>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "app/run/stage_times.h"
#include "io/frames/frames.h"
#include "model/vggt.h"

namespace vggt {

/// The tracker's query points [Q,2]; undefined where it does not run.
at::Tensor query_tensor(const ModelPlan& plan);

/// A run of a network: Vggt::run() of a model, or what does the same.
struct NetworkCall {
  std::function<RunReport(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                          const Observer& observer, const RunOptions& options)>
      run;
};
NetworkCall call_of(const Vggt& model);  // which must outlive it

/// Runs the network on the frames, as `options` say, with progress and warnings, and adds the seconds of each
/// of its stages; the sink counts those of a stage's last piece before it does anything else. Throws as
/// Vggt::run(), and Stopped.
RunReport run_network(const NetworkCall& network, const ModelPlan& plan, const RunOptions& options,
                      const FrameSet& frames, const Sink& sink, StageTimes& times, const Events& events);

}  // namespace vggt
