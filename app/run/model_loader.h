#pragma once
#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <utility>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "io/weights/weight_file.h"
#include "model/vggt.h"

namespace vggt {

/// Of the network's tensors; and of those of the depth refiner, which many files lack.
TensorShapes shapes_of(const WeightFile& weights);
TensorShapes refiner_shapes_of(const WeightFile& weights);
/// The refiner's tensors, read at once, so that damage shows. Throws what WeightFile::load() throws.
TensorSource read_refiner(const WeightFile& weights);
/// The architecture, after a check that the file holds exactly its tensors, and those of a refiner or none.
/// Throws std::invalid_argument naming the file, and the key or the tensors.
Config config_of(const WeightFile& weights);
/// The weight file as the model wants it; it must outlive the source.
TensorSource source_of(const WeightFile& weights);

/// Loads a network from a plan's weights in its own thread. The destructor cancels the loading.
template <class Network>
class NetworkLoader {
 public:
  /// `plan` must outlive the loader.
  NetworkLoader(const ModelPlan& plan, std::function<Network(const TensorSource&)> make)
      : total_(static_cast<int64_t>(expected_tensors(plan.config, plan.options.heads).size())),
        network_(std::async(std::launch::async,
                            [this, &plan, make = std::move(make)] { return load(plan, make); })) {}
  ~NetworkLoader() { cancelled_ = true; }
  NetworkLoader(const NetworkLoader&) = delete;
  NetworkLoader& operator=(const NetworkLoader&) = delete;

  /// The network, once it is loaded; calls tick(loaded tensors, all) meanwhile and at the end. Throws what
  /// the loading or tick threw.
  Network wait(const std::function<void(int64_t, int64_t)>& tick) {
    while (network_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
      tick(loaded_, total_);
    tick(total_, total_);
    return network_.get();
  }
  /// How long the loading took, after wait().
  double seconds() const { return seconds_; }

 private:
  Network load(const ModelPlan& plan, const std::function<Network(const TensorSource&)>& make) {
    const c10::DeviceGuard guard(plan.options.device);  // what a thread does first would start the first GPU
    const auto start = std::chrono::steady_clock::now();
    TensorSource source = source_of(plan.weights);
    source.load = [this, load = source.load](const std::string& name, at::ScalarType type,
                                             at::Device device) {
      if (cancelled_) throw Stopped();
      at::Tensor tensor = load(name, type, device);
      ++loaded_;
      return tensor;
    };
    Network network = make(source);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return network;
  }

  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> loaded_ = 0;
  int64_t total_;
  double seconds_ = 0;
  std::future<Network> network_;  // last: its destructor waits for the thread, which uses the rest
};

/// A model that loads in its own thread.
class ModelLoader {
 public:
  /// `plan` must outlive the loader, `tuner` (which may be null) the model.
  ModelLoader(const ModelPlan& plan, AttentionTuner* tuner);

  /// The model, once it is loaded, with progress meanwhile. Throws what the loading threw, or Stopped.
  Vggt wait(const Events& events);
  /// How long the loading took, after wait().
  double seconds() const { return loader_.seconds(); }

 private:
  NetworkLoader<Vggt> loader_;
};

}  // namespace vggt
