#include "app/run/model_loader.h"

#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <stdexcept>

namespace vggt {

TensorShapes shapes_of(const WeightFile& weights) {
  TensorShapes shapes;
  for (const auto& [name, tensor] : weights.tensors()) shapes[name] = tensor.shape;
  return shapes;
}

Config config_of(const WeightFile& weights) {
  try {
    const TensorShapes shapes = shapes_of(weights);
    Config config = read_config(weights.config_json(), shapes);
    check_shapes(expected_tensors(config, heads_in(shapes)), shapes);
    return config;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(weights.path().string() + ": " + error.what());
  }
}

TensorSource source_of(const WeightFile& weights) {
  return {shapes_of(weights), [&weights](const std::string& name, at::ScalarType type, at::Device device) {
            return weights.load(name, type, device);
          }};
}

ModelLoader::ModelLoader(const ModelPlan& plan, AttentionTuner* tuner)
    : total_(static_cast<int64_t>(expected_tensors(plan.config, plan.options.heads).size())) {
  ModelOptions options = plan.options;
  options.tuner = tuner;
  model_ = std::async(std::launch::async, [this, source = source_of(plan.weights), config = plan.config,
                                           options] { return load(source, config, options); });
}

ModelLoader::~ModelLoader() {
  cancelled_ = true;
}

Vggt ModelLoader::load(TensorSource source, Config config, ModelOptions options) {
  const c10::DeviceGuard guard(options.device);  // what a thread does first would start the first GPU
  const auto start = std::chrono::steady_clock::now();
  source.load = [this, load = source.load](const std::string& name, at::ScalarType type, at::Device device) {
    if (cancelled_) throw Stopped();
    at::Tensor tensor = load(name, type, device);
    ++loaded_;
    return tensor;
  };
  Vggt model(config, source, options);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

Vggt ModelLoader::wait(const Events& events) {
  while (model_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    events.check_stop();
    events.progress("weights", "tensors", loaded_, total_);
  }
  events.progress("weights", "tensors", total_, total_);
  return model_.get();
}

}  // namespace vggt
