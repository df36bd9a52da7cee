#include "model/begin_heads.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>
#ifdef VGGT_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "model/network.h"

namespace vggt {
namespace {

/// Does the work on a thread of its own. If no thread starts or the work fails, the run does it later.
template <class Work>
std::future<void> begin(const ModelOptions& options, Work work) try {
  if (!options.device.is_cuda()) return {};
  return std::async(std::launch::async, [device = options.device, work = std::move(work)] {
    const c10::InferenceMode inference;
    const c10::DeviceGuard guard(device);
    try {
      work();
    } catch (const std::exception&) {
    }
  });
} catch (const std::system_error&) {  // there is no thread
  return {};
}

/// What cuBLAS works in on this thread goes back to the device: the run's threads have their own.
void forget_workspace() {
#if defined(VGGT_CUDA) && \
    TORCH_VERSION_MINOR >= 11  // of LibTorch 2: the first whose maps are known to have locks
  const auto key = std::make_tuple<void*, void*>(at::cuda::getCurrentCUDABlasHandle(),
                                                 at::cuda::getCurrentCUDAStream().stream());
  for (auto* workspaces :
       {&at::cuda::cublas_handle_stream_to_workspace(), &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock lock(workspaces->mutex);
    workspaces->map.erase(key);
  }
#endif
}

/// The part, unless its weights wait on the host.
template <class Part>
std::shared_ptr<const Part> resident(const std::optional<HeldPart<Part>>& held) {
  return held && !held->on_host() ? held->open() : nullptr;
}

void convolve(const at::TensorOptions& options) {
  const auto blank = [&](at::IntArrayRef sizes) {
    return at::zeros(sizes, options).contiguous(at::MemoryFormat::ChannelsLast);
  };
  at::conv2d(blank({1, 32, 16, 16}), blank({32, 32, 3, 3}), {}, 1, 1);
}

void run_dense(const DptHead& head, const at::TensorOptions& options, int64_t patch_size) {
  constexpr int64_t kPatches = 4;  // of a side
  std::array<at::Tensor, 4> patches;
  for (size_t level = 0; level < 4; ++level)
    patches[level] = at::zeros({1, kPatches * kPatches, head.channels(level)}, options);
  const int64_t side = kPatches * patch_size;
  activate_depth(head.forward(patches, side, side, head.places(side, side)));
}

}  // namespace

std::future<void> begin_products(const ModelOptions& options, const Config& config,
                                 const std::optional<HeldPart<CameraHead>>& camera) {
  const at::TensorOptions device = at::device(options.device);
  return begin(options, [trunk = device.dtype(aggregator_kind(options.precision).operand),
                         state = device.dtype(head_kind(options.precision).state), head = resident(camera),
                         dim = 2 * config.embed_dim] {
    constexpr int64_t kSide = 64, kFrames = 16;
    const at::Tensor x = at::zeros({kSide, kSide}, trunk);
    at::linear(x, x, x[0]);
    if (head) head->forward(at::zeros({kFrames, dim}, state), {});
    forget_workspace();
  });
}

std::future<void> begin_convolutions(const ModelOptions& options, const Config& config,
                                     const std::optional<HeldPart<DptHead>>& dense) {
  return begin(options,
               [of_head = at::device(options.device).dtype(dense_head_kind(options).operand),
                head = options.heads_in_bf16 ? resident(dense) : nullptr, patch_size = config.patch_size] {
                 if (head) {
                   run_dense(*head, of_head, patch_size);
                 } else {
                   convolve(of_head);
                 }
               });
}

}  // namespace vggt
