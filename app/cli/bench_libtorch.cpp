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
        TensorSource source = source_of(plan.model.weights);
        source.load = [this, load = source.load](const std::string& name, at::ScalarType type,
                                                 at::Device device) {
          if (cancelled_) throw Stopped();
          return load(name, type, device);
        };
        TorchNetwork network(plan.model.config, source, options);
        weight_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return network;
      })) {}

LibTorchProgram::~LibTorchProgram() {
  cancelled_ = true;
}

NetworkCall LibTorchProgram::call() {
  return {[this](const FrameProvider& frames, const at::Tensor&, const Sink& sink, const Observer& observer,
                 const RunOptions&) {
    while (loading_.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
      report_progress(observer, "weights", 0, 1);  // which throws where the run is to stop
    const TorchNetwork network = loading_.get();
    report_progress(observer, "weights", 1, 1);
    network.run(frames, sink, observer);
    return RunReport();
  }};
}

}  // namespace vggt
