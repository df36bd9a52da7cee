#include "app/batch/job_memory.h"

#include <fstream>
#ifdef VGGT_CUDA
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace vggt {

void divide_memory(MemoryLimits& limits, int64_t resident_weights, int64_t jobs, int64_t devices) {
  MemoryBudget& network = limits.network;
  if (network.device != MemoryBudget::kUnlimited)
    network.device = resident_weights + (network.device - resident_weights) / jobs;
  if (network.host != MemoryBudget::kUnlimited) network.host /= jobs * devices;
  // For each device the frames of one more scene wait.
  int64_t& frames = limits.storage.bytes;
  if (frames != HostStorage().bytes) frames /= (jobs + 1) * devices;
}

void reset_peak_host_bytes() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

void reset_peak_device_memory([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda() && at::getDeviceAllocator(at::kCUDA)->initialized())
    at::getDeviceAllocator(at::kCUDA)->resetPeakStats(device.index());
#endif
}

}  // namespace vggt
