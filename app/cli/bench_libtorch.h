#pragma once
#include "app/run/model_loader.h"
#include "app/run/run_network.h"
#include "app/run/run_plan.h"
#include "model/bench/torch_network.h"

namespace vggt {

/// A plan's network of LibTorch's operations alone, which loads beside the reading of frames, as ours does.
class LibTorchProgram {
 public:
  /// plan: without tracks; it must outlive the object.
  explicit LibTorchProgram(const RunPlan& plan);

  /// For RunParts; the object must outlive it. Reports a stage "weights", whose seconds are those that the
  /// run waited for them.
  NetworkCall call();
  double weight_seconds() const { return loader_.seconds(); }  // that the loading took, after a call

 private:
  NetworkLoader<TorchNetwork> loader_;
};

}  // namespace vggt
