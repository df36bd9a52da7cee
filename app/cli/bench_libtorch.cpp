#include "app/cli/bench_libtorch.h"

#include <c10/core/DeviceGuard.h>

#include <chrono>

#include "app/run/model_loader.h"

namespace vggt {

LibTorchProgram::LibTorchProgram(const RunPlan& plan)
    : loading_(std::async(std::launch::async, [this, &plan] {
        const auto begin = std::chrono::steady_clock::now();
        const ModelOptions& options = plan.model.options;
        const c10::DeviceGuard guard(options.device);
        TorchNetwork network(plan.model.config, source_of(plan.model.weights), options);
        weight_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return network;
      })) {}

NetworkCall LibTorchProgram::call() {
  return {[this](const FrameProvider& frames, const at::Tensor&, const Sink& sink, const Observer& observer,
                 const RunOptions&) {
    const TorchNetwork network = loading_.get();
    report_progress(observer, "weights", 1, 1);
    network.run(frames, sink, observer);
    return RunReport();
  }};
}

}  // namespace vggt
