#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "app/run/attention_cache.h"
#include "app/run/model_loader.h"
#include "app/run/run_plan.h"
#include "model/vggt.h"

namespace vggt {

/// A plan's model on its device, for any number of runs, also at once.
class LoadedModel {
 public:
  /// Begins to load it on a thread of its own. `plan` must outlive wait(). The destructor cancels the
  /// loading.
  explicit LoadedModel(const ModelPlan& plan);
  /// Once, before anything but serves(): shows progress until the model is loaded. Throws what the loading
  /// threw, or Stopped.
  void wait(const Events& events);

  /// Whether runs of this plan can use the model: it is the same file on the same device with the same
  /// options.
  bool serves(const ModelPlan& plan) const;
  const Vggt& model() const { return *model_; }
  double seconds() const { return loader_.seconds(); }  // that the loading took
  /// What its weights take of the device, beside which the memory of a run is planned.
  int64_t device_bytes() const { return device_bytes_; }
  bool measured_attention() const { return tuned_.measured(); }  // in a run so far
  /// Writes what the runs so far measured of attention to the user's cache.
  void save_tuning() const { tuned_.save(); }
  /// What computed the attention of the runs so far, as TunedAttention::kernels().
  std::vector<std::string> attention_kernels() const { return tuned_.kernels(); }

 private:
  const std::string key_;
  const int64_t device_bytes_;
  TunedAttention tuned_;
  ModelLoader loader_;
  std::optional<Vggt> model_;
};

}  // namespace vggt
