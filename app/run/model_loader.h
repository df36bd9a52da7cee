#pragma once
#include <atomic>
#include <cstdint>
#include <future>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "io/weights/weight_file.h"
#include "model/vggt.h"

namespace vggt {

TensorShapes shapes_of(const WeightFile& weights);
/// The architecture, after a check that the file holds exactly its tensors. Throws std::invalid_argument
/// naming the file, and the key or the tensors.
Config config_of(const WeightFile& weights);
/// The weight file as the model wants it; it must outlive the source.
TensorSource source_of(const WeightFile& weights);

/// Loads a model in its own thread. The destructor cancels the loading.
class ModelLoader {
 public:
  /// `plan` must outlive the loader, `tuner` (which may be null) the model.
  ModelLoader(const ModelPlan& plan, AttentionTuner* tuner);
  ~ModelLoader();
  ModelLoader(const ModelLoader&) = delete;
  ModelLoader& operator=(const ModelLoader&) = delete;

  /// The model, once it is loaded, with progress meanwhile. Throws what the loading threw, or Stopped.
  Vggt wait(const Events& events);
  /// How long the loading took, after wait().
  double seconds() const { return seconds_; }

 private:
  Vggt load(TensorSource source, Config config, ModelOptions options);

  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> loaded_ = 0;
  int64_t total_;
  double seconds_ = 0;
  std::future<Vggt> model_;  // last: its destructor waits for the thread, which uses the rest
};

}  // namespace vggt
