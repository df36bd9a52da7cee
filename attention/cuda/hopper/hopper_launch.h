#pragma once
// How the Hopper kernels are started.

#include <algorithm>
#include <climits>

#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/hopper/tensor_map.h"

namespace vggt::hopper {

/// Starts a persistent grid: one block per multiprocessor takes one tile of queries after another.
template <class Shape, class Maps>
cudaError_t launch_blocks(void (*kernel)(CudaProblem, Maps, int), const CudaProblem& p, const Maps& maps,
                          cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (error != cudaSuccess) return error;
  const int64_t items = blocks_of(p, Shape::kQueries);
  if (items > INT_MAX) return cudaErrorInvalidValue;
  const int blocks = static_cast<int>(std::min<int64_t>(items, multiprocessors));
  kernel<<<blocks, Shape::kThreads, Shape::kSharedBytes, stream>>>(p, maps, static_cast<int>(items));
  return cudaGetLastError();
}

}  // namespace vggt::hopper
