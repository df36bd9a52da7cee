#pragma once
// How the kernels of gemm_ring.cuh are started.

#include <cuda_runtime_api.h>

#include <algorithm>

#include "model/layers/gemm_ring.cuh"

namespace vggt::gemm {

/// A persistent grid of clusters of kBlocks blocks.
template <int kBlocks, class Kernel>
class ClusterGrid {
 public:
  ClusterGrid(Kernel kernel, int shared_bytes, cudaStream_t stream) : kernel_(kernel) {
    in_clusters_.id = cudaLaunchAttributeClusterDimension;
    in_clusters_.val.clusterDim = {kBlocks, 1, 1};
    config_.gridDim = kBlocks;
    config_.blockDim = kThreads;
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream;
    config_.attrs = &in_clusters_;
    config_.numAttrs = 1;
  }
  ClusterGrid(const ClusterGrid&) = delete;
  ClusterGrid& operator=(const ClusterGrid&) = delete;

  /// How many clusters run at one time.
  cudaError_t count(int& clusters) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, config_.dynamicSmemBytes);
    if (error != cudaSuccess) return error;
    const cudaError_t counted = cudaOccupancyMaxActiveClusters(&clusters, kernel_, &config_);
    clusters = std::max(clusters, 1);
    return counted;
  }
  template <class... Arguments>
  cudaError_t launch(int clusters, const Arguments&... arguments) {
    config_.gridDim = kBlocks * static_cast<unsigned>(clusters);
    return cudaLaunchKernelEx(&config_, kernel_, arguments...);
  }

 private:
  Kernel kernel_;
  cudaLaunchAttribute in_clusters_{};
  cudaLaunchConfig_t config_{};
};

}  // namespace vggt::gemm
