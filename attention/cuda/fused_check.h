#pragma once
#include <string>

#include "attention/attention_types.h"
#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// Whether a kernel of LibTorch's may take the place of ours on this GPU, for this type and head dim: it
/// computes a small problem, laid out as the model's, and output and log-sum-exp are held to float64 with the
/// limits of our variants. Once in a process, then known, for any number of threads; it waits for the GPU, so
/// that it must not be asked first while a stream is being captured.
bool fused_offered(CudaKernel fused, at::ScalarType type, int64_t dim, at::Device device);

/// From now on it is not offered in this process: it failed where it should not have.
void withdraw_fused(CudaKernel fused, at::ScalarType type, int64_t dim, at::Device device);

}  // namespace vggt
