#include "attention/bench/machine.h"

#include <ATen/Parallel.h>

#include <fstream>

#include "attention/bench/timing.h"
#ifdef VGGT_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

#ifdef VGGT_CUDA
cudaDeviceProp gpu_at(at::Device device) {
  cudaDeviceProp gpu{};
  const cudaError_t error = cudaGetDeviceProperties(&gpu, device.index());
  TORCH_CHECK(error == cudaSuccess, "CUDA: ", cudaGetErrorString(error));
  return gpu;
}
#endif

}  // namespace

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string machine_name(at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) return gpu_at(device).name;
#endif
  TORCH_CHECK(device.is_cpu(), "bench: this build has no CUDA");
  return processor() + ", " + std::to_string(at::get_num_threads()) + " threads";
}

double memory_bytes([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) return static_cast<double>(gpu_at(device).totalGlobalMem);
#endif
  return bytes_in("/proc/meminfo", "MemTotal").value_or(0);
}

}  // namespace vggt
