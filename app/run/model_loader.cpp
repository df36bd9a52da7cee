#include "app/run/model_loader.h"

#include <chrono>
#include <set>
#include <stdexcept>

#include "app/run/device.h"
#include "app/events/stop.h"

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

ModelLoader::ModelLoader(const WeightFile& weights, const Config& config, const ModelOptions& options)
    : total_(static_cast<int64_t>(expected_tensors(config, options.heads).size())) {
  model_ = std::async(std::launch::async, [this, source = source_of(weights), config, options] {
    return load(source, config, options);
  });
}

ModelLoader::~ModelLoader() {
  cancelled_ = true;
}

Vggt ModelLoader::load(TensorSource source, Config config, ModelOptions options) {
  const auto start = std::chrono::steady_clock::now();
  source.load = [this, load = source.load](const std::string& name, at::ScalarType type, at::Device device) {
    check_stop();
    if (cancelled_) throw Stopped();
    at::Tensor tensor = load(name, type, device);
    ++loaded_;
    return tensor;
  };
  Vggt model(config, source, options);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

Vggt ModelLoader::wait(Console& console) {
  while (model_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    check_stop();
    console.progress("weights", "tensors", loaded_, total_);
  }
  console.progress("weights", "tensors", total_, total_);
  return model_.get();
}

MemoryEstimate estimate_memory(const Config& config, const Heads& heads, Precision precision, int64_t frames,
                               int64_t height, int64_t width) {
  MemoryEstimate estimate;
  for (const auto& [name, shape] : expected_tensors(config, heads)) {
    int64_t values = 1;
    for (const int64_t size : shape) values *= size;
    estimate.weights += values * bytes_of(precision);
  }
  const int64_t patches = (height / config.patch_size) * (width / config.patch_size);
  const int64_t tokens = frames * (patches + config.special_tokens());
  const std::set<int64_t> picks(config.intermediate_layers.begin(), config.intermediate_layers.end());
  constexpr int64_t kResidualBytes = 4, kProductWidths = 8;  // q, k, v, output, and the MLP's 4 C
  const int64_t kept = 2 * static_cast<int64_t>(picks.size()) * bytes_of(precision);
  estimate.work = tokens * config.embed_dim * (kResidualBytes + kProductWidths * bytes_of(precision) + kept) +
                  frames * height * width * 3;
  return estimate;
}

}  // namespace vggt
