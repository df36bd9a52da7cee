#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "app/options/options.h"
#include "io/files/host_storage.h"
#include "model/schedule.h"

namespace vggt {

/// What the parts of a run may take, so that the process keeps the limits that the options set.
struct MemoryLimits {
  MemoryBudget network;
  HostStorage storage;                   // of frames and depth maps
  std::optional<int64_t> gpu_allocator;  // what LibTorch may reserve on the GPU, where --gpu-memory is set
};

/// Of a GPU without --gpu-memory the network may take what is free, and the `loaded` bytes of weights that
/// are there already. Throws std::invalid_argument for limits
/// that not even the program itself keeps, and for --gpu-memory without a GPU.
MemoryLimits choose_limits(const Options& options, at::Device device, int64_t loaded = 0);

}  // namespace vggt
