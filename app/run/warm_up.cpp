#include "app/run/warm_up.h"

#include <ATen/ATen.h>

#include <exception>

namespace vggt {
namespace {

at::TensorOptions small(const ModelOptions& options, bool in_bf16) {
  return at::device(options.device).dtype(in_bf16 ? at::kBFloat16 : at::kFloat);
}

void multiply(const ModelOptions& options) try {
  // A thread's handle and workspace go to the next one that needs them when it ends.
  const c10::InferenceMode inference;
  const at::Tensor x = at::zeros({64, 64}, small(options, options.precision == Precision::bf16));
  at::linear(x, x, x[0]);
} catch (const std::exception&) {
}

void convolve(const ModelOptions& options) try {
  const c10::InferenceMode inference;
  const auto kind = small(options, options.heads_in_bf16);
  const at::Tensor x = at::zeros({1, 32, 16, 16}, kind).contiguous(at::MemoryFormat::ChannelsLast);
  at::conv2d(x, at::zeros({32, 32, 3, 3}, kind).contiguous(at::MemoryFormat::ChannelsLast), {}, 1, 1);
} catch (const std::exception&) {
}

}  // namespace

std::vector<std::future<void>> warm_up(const ModelOptions& options) {
  std::vector<std::future<void>> begun;
  if (!options.device.is_cuda()) return begun;
  begun.push_back(std::async(std::launch::async, multiply, options));
  if (options.heads.depth || options.heads.points || options.heads.tracks)
    begun.push_back(std::async(std::launch::async, convolve, options));
  return begun;
}

}  // namespace vggt
