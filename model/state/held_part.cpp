#include "model/state/held_part.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "model/state/host_memory.h"

namespace vggt {
namespace {

constexpr int64_t kAlignment = 256;  // as LibTorch's own allocations on a GPU
// Tensors of more bytes get memory of their own, so that none lies in two places for longer than it is
// loaded.
constexpr int64_t kLarge = int64_t{1} << 20;

/// fp32, contiguous, in the host's memory.
bool all_finite(const at::Tensor& tensor) {
  constexpr int64_t kGrain = 1 << 16;
  const float* values = tensor.const_data_ptr<float>();
  std::atomic<bool> finite = true;
  at::parallel_for(0, tensor.numel(), kGrain, [&](int64_t begin, int64_t end) {
    bool here = true;
    for (int64_t i = begin; i < end; ++i) here &= std::isfinite(values[i]);
    if (!here) finite = false;
  });
  return finite;
}

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

HostWeights::HostWeights(Binder& bind, const std::function<void(Binder&)>& make)
    : tensors_(std::make_shared<std::map<std::string, at::Tensor>>()) {
  TensorSource collecting;
  // Or a GPU would have to be asked each time that they are copied.
  const auto finite = std::make_shared<std::set<std::string>>();
  const bool pinned = bind.device().is_cuda();
  int64_t small_bytes = 0;
  collecting.load = [&](const std::string& name, at::ScalarType type, at::Device) {
    at::Tensor tensor = bind.source()->load(name, type, at::kCPU).contiguous();
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    bytes_ += aligned(bytes);
    if (pinned && type == at::kFloat && all_finite(tensor)) finite->insert(name);
    if (bytes > kLarge) {
      tensor = host_tensor(tensor.sizes(), tensor.scalar_type(), pinned).copy_(tensor);
    } else {
      small_bytes += aligned(bytes);
    }
    return tensors_->emplace(name, std::move(tensor)).first->second;
  };
  Binder of_host(&collecting, bind.kind(), at::kCPU);
  make(of_host);
  for (const auto& [name, shape] : of_host.taken()) bind.record(name, shape);
  slab_ = host_tensor({small_bytes}, at::kByte, pinned);
  int64_t offset = 0;
  for (auto& [name, tensor] : *tensors_) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes > kLarge) continue;
    const at::Tensor place = slab_.narrow(0, offset, bytes).view(tensor.scalar_type()).view(tensor.sizes());
    place.copy_(tensor);
    tensor = place;
    offset += aligned(bytes);
  }
  source_.load = [tensors = tensors_](const std::string& name, at::ScalarType type, at::Device device) {
    return tensors->at(name).to(at::TensorOptions().device(device).dtype(type), /*non_blocking=*/true,
                                /*copy=*/device.is_cpu());
  };
  source_.known_finite = [finite](const std::string& name) { return finite->contains(name); };
}

}  // namespace vggt
