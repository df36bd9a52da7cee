#pragma once
#include <atomic>
#include <future>

#include "app/run/run_network.h"
#include "app/run/run_plan.h"
#include "model/bench/torch_network.h"

namespace vggt {

/// A plan's network of LibTorch's operations alone, which loads beside the reading of frames, as ours does.
class LibTorchProgram {
 public:
  /// plan: without tracks; it must outlive the object.
  explicit LibTorchProgram(const RunPlan& plan);
  LibTorchProgram(const LibTorchProgram&) = delete;
  ~LibTorchProgram();  // a load that goes on ends with the tensor that it is at

  /// For RunParts; the object must outlive it. Reports a stage "weights", whose seconds are those that the
  /// run waited for them.
  NetworkCall call();
  double weight_seconds() const { return weight_seconds_; }  // that the loading took, after a call

 private:
  std::atomic<bool> cancelled_ = false;
  double weight_seconds_ = 0;
  std::future<TorchNetwork> loading_;  // last: its destructor waits for the thread
};

}  // namespace vggt
