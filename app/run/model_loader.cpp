#include "app/run/model_loader.h"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/refine/depth_refiner.h"

namespace vggt {

namespace {

TensorShapes all_shapes(const WeightFile& weights) {
  TensorShapes shapes;
  for (const auto& [name, tensor] : weights.tensors()) shapes[name] = tensor.shape;
  return shapes;
}

}  // namespace

TensorShapes shapes_of(const WeightFile& weights) {
  return network_shapes(all_shapes(weights));
}

TensorShapes refiner_shapes_of(const WeightFile& weights) {
  return refiner_shapes(all_shapes(weights));
}

TensorSource read_refiner(const WeightFile& weights) {
  TensorSource source{refiner_shapes_of(weights), {}};
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, shape] : source.shapes) tensors[name] = weights.load(name, at::kFloat, at::kCPU);
  source.load = [tensors = std::move(tensors)](const std::string& name, at::ScalarType type,
                                               at::Device device) {
    return tensors.at(name).to(device, type);
  };
  return source;
}

Config config_of(const WeightFile& weights) {
  try {
    const TensorShapes shapes = shapes_of(weights);
    Config config = read_config(weights.config_json(), shapes);
    check_shapes(expected_tensors(config, heads_in(shapes)), shapes);
    if (const TensorShapes refiner = refiner_shapes_of(weights); !refiner.empty())
      DepthRefiner::check(refiner);
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
    : loader_(plan, [&plan, tuner](const TensorSource& source) {
        ModelOptions options = plan.options;
        options.tuner = tuner;
        return Vggt(plan.config, source, options);
      }) {}

Vggt ModelLoader::wait(const Events& events) {
  return loader_.wait([&](int64_t loaded, int64_t total) {
    events.check_stop();
    events.progress("weights", "tensors", loaded, total);
  });
}

}  // namespace vggt
