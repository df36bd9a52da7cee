#pragma once
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace vggt {

/// Seconds that the GPU takes for `work` on the current stream, by its events. Ends the program where they
/// fail.
template <class Work>
double gpu_seconds(const Work& work) {
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  cudaEvent_t begin, end;
  float milliseconds = 0;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, stream);
  work();
  cudaEventRecord(end, stream);
  if (cudaEventSynchronize(end) != cudaSuccess ||
      cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess) {
    std::fprintf(stderr, "timing failed: %s\n", cudaGetErrorString(cudaGetLastError()));
    std::exit(1);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1e3;
}

/// The median of 21 calls, after two that do not count.
template <class Work>
double median_gpu_seconds(const Work& work) {
  std::vector<double> seconds(21);
  for (int i = 0; i < 2; ++i) gpu_seconds(work);
  for (double& s : seconds) s = gpu_seconds(work);
  std::nth_element(seconds.begin(), seconds.begin() + 10, seconds.end());
  return seconds[10];
}

}  // namespace vggt
