#pragma once
#include <ATen/ATen.h>

#include <functional>

namespace vggt {

/// Hands out frames on the CPU: [count,3,H,W], uint8 or floating point in [0,1] (uint8 is divided by 255). A run
/// on a GPU asks for them on another thread, one call after another.
struct FrameProvider {
  int64_t frames = 0, height = 0, width = 0;
  std::function<at::Tensor(int64_t first, int64_t count)> get;
};

}  // namespace vggt
