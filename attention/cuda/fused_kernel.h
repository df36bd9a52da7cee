#pragma once
#include <cstdint>

namespace vggt {

/// LibTorch's fused kernels on CUDA.
enum class FusedKernel { cudnn, flash, efficient };

/// The fastest of them that takes these sizes. half: fp16 or bf16, else fp32. capability: major·10 + minor.
/// Pure.
FusedKernel choose_fused_kernel(bool half, int64_t dim, int64_t queries, int64_t keys, int capability);

}  // namespace vggt
