#include "model/random_weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "model/vggt.h"
#ifdef VGGT_CUDA
#include <ATen/cuda/CUDAGeneratorImpl.h>
#endif

namespace vggt {
namespace {

at::Generator generator([[maybe_unused]] at::Device device, uint64_t seed) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    at::Generator cuda = at::cuda::detail::createCUDAGenerator(device.index());
    cuda.set_current_seed(seed);
    return cuda;
  }
#endif
  return at::detail::createCPUGenerator(seed);
}

uint64_t name_hash(const std::string& name) {  // FNV-1a: the same everywhere, unlike std::hash
  uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

at::Tensor random_tensor(const std::string& name, const std::vector<int64_t>& shape, at::ScalarType type,
                         at::Device device, uint64_t seed) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  if (name.ends_with(".gamma")) return at::full(shape, 0.01, options).to(type);
  // Four iterations of the camera head add up this bias to a field of view of one radian, from which small
  // random steps do not take it far: cameras see the points.
  const bool is_pose = name.starts_with("camera_head.pose_branch.fc2.");
  const bool is_vector = shape.size() == 1;
  if (is_vector && name.ends_with(".bias")) {
    at::Tensor bias = at::zeros(shape, options);
    if (is_pose) bias.slice(0, 7).fill_(0.25);
    return bias.to(type);
  }
  if (is_vector) return at::ones(shape, options).to(type);
  int64_t inputs = 1;
  for (size_t i = 1; i < shape.size(); ++i) inputs *= shape[i];
  const bool is_token = name.ends_with("token") || name.ends_with("embed");
  const double deviation = is_token ? 0.02 : (is_pose ? 0.05 : 1) / std::sqrt(static_cast<double>(inputs));
  at::Tensor values = at::empty(shape, options);
  values.normal_(0, deviation, generator(device, seed ^ name_hash(name)));
  return values.to(type);
}

}  // namespace

TensorSource random_weights(const Config& config, const Heads& heads, uint64_t seed) {
  TensorSource source;
  source.shapes = expected_tensors(config, heads);
  source.load = [shapes = source.shapes, seed](const std::string& name, at::ScalarType type,
                                               at::Device device) {
    return random_tensor(name, shapes.at(name), type, device, seed);
  };
  return source;
}

}  // namespace vggt
