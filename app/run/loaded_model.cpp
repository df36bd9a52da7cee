#include "app/run/loaded_model.h"

#include "app/run/device.h"

namespace vggt {
namespace {

std::string key_of(const ModelPlan& plan) {
  const ModelOptions& options = plan.options;
  return plan.weights.path().string() + '\n' + options.device.str() + '\n' +
         precision_name(options.precision) + '\n' + (options.heads_in_bf16 ? "heads in bf16\n" : "\n") +
         variant_name(options.attention) + '\n' + heads_text(options.heads) + '\n' +
         (plan.autotune ? "tuned" : "by rule") + '\n' + (options.weights_on_host ? "on host" : "on device");
}

int64_t bytes_on_device(const ModelPlan& plan) {
  if (!plan.options.device.is_cuda() || plan.options.weights_on_host) return 0;
  return weight_bytes(memory_request(plan.config, plan.options));
}

}  // namespace

LoadedModel::LoadedModel(const ModelPlan& plan)
    : key_(key_of(plan)),
      device_bytes_(bytes_on_device(plan)),
      tuned_(plan.options.device, plan.autotune),
      loader_(plan, tuned_.tuner()) {}

void LoadedModel::wait(const Events& events) {
  model_.emplace(loader_.wait(events));
}

bool LoadedModel::serves(const ModelPlan& plan) const {
  return key_ == key_of(plan);
}

}  // namespace vggt
