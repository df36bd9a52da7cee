#include "app/cli/bench_libtorch.h"

namespace vggt {

LibTorchProgram::LibTorchProgram(const RunPlan& plan)
    : loader_(plan.model, [&plan](const TensorSource& source) {
        return TorchNetwork(plan.model.config, source, plan.model.options);
      }) {}

NetworkCall LibTorchProgram::call() {
  return {[this](const FrameProvider& frames, const at::Tensor&, const Sink& sink, const Observer& observer,
                 const RunOptions&) {
    // Throws where the run is to stop.
    const TorchNetwork network = loader_.wait(
        [&](int64_t loaded, int64_t total) { report_progress(observer, "weights", loaded, total); });
    network.run(frames, sink, observer);
    return RunReport();
  }};
}

}  // namespace vggt
