#include "app/batch/job_memory.h"

#include <malloc.h>

#include <fstream>
#ifdef VGGT_CUDA
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace vggt {

void divide_memory(MemoryLimits& limits, int64_t resident_weights, int64_t jobs, int64_t devices) {
  MemoryBudget& network = limits.network;
  if (network.device != MemoryBudget::kUnlimited)
    network.device = resident_weights + (network.device - resident_weights) / jobs;
  // For each device one more scene is read meanwhile, and its frames wait.
  const int64_t parts = limits.parts = (jobs + 1) * devices;
  if (network.host != MemoryBudget::kUnlimited) {
    const int64_t part = network.host / parts;
    limits.images -= network.host - part;
    network.host = part;
  }
  int64_t& frames = limits.storage.bytes;
  if (frames != HostStorage().bytes) frames /= parts;
}

int64_t reset_peak_host_bytes() {
  ::malloc_trim(0);  // what earlier scenes have left free
  std::ofstream("/proc/self/clear_refs") << "5";
  return resident_bytes();
}

void reset_peak_device_memory([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda() && at::getDeviceAllocator(at::kCUDA)->initialized())
    at::getDeviceAllocator(at::kCUDA)->resetPeakStats(device.index());
#endif
}

}  // namespace vggt
