#include "app/api/context.h"

#include <chrono>
#include <utility>

#include "app/api/settings.h"
#include "app/run/model_loader.h"
#include "app/run/weights_path.h"

namespace vggt {
namespace {

const std::shared_ptr<const int>& this_thread() {
  thread_local const auto token = std::make_shared<const int>();
  return token;
}

}  // namespace

void CallErrors::set(CallError error) {
  const std::lock_guard lock(mutex_);
  std::erase_if(of_threads_, [](const auto& entry) { return entry.first.expired(); });
  of_threads_[this_thread()] = std::move(error);
}

const CallError& CallErrors::get() const {
  static const CallError none;
  const std::lock_guard lock(mutex_);
  const auto found = of_threads_.find(this_thread());
  return found == of_threads_.end() ? none : found->second;
}

Context::Context(const std::string& weights) {
  options_.weights = weights.empty() ? default_weights().string() : weights;
  config_of(WeightFile::open(options_.weights));
}

void Context::set(const char* name, const char* value) {
  const std::lock_guard lock(mutex_);
  Options changed = options_;
  set_by_name(changed, name, value);
  if (changed.weights.empty()) changed.weights = default_weights().string();
  options_ = std::move(changed);
}

Options Context::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

std::shared_ptr<const LoadedModel> Context::loaded() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

std::shared_ptr<const LoadedModel> Context::model_for(const RunPlan& plan, const Events& events) {
  constexpr std::chrono::milliseconds kPatience(50);
  std::unique_lock loading(loading_, std::defer_lock);
  while (!loading.try_lock_for(kPatience)) events.check_stop();
  if (auto model = loaded(); model && model->serves(plan.model)) return model;
  {
    // Without other runs its memory is free before the next one is loaded.
    const std::lock_guard lock(mutex_);
    model_.reset();
  }
  auto model = std::make_shared<LoadedModel>(plan.model);
  model->wait(events);
  const std::lock_guard lock(mutex_);
  model_ = model;
  return model;
}

Reconstruction Context::run(const Options& options, const InMemory& memory, const Events& events) {
  RunParts parts;
  if (const auto model = loaded()) {
    const RunPlan plan = plan_run(options, model.get(), memory);
    parts.model = model.get();
    if (model->serves(plan.model)) return reconstruct(plan, events, parts);
  }
  const RunPlan plan = plan_run(options, nullptr, memory);
  const auto model = model_for(plan, events);
  parts.model = model.get();
  return reconstruct(plan, events, parts);
}

}  // namespace vggt
