#pragma once
#include <cstdint>

#include "app/run/memory_limits.h"

namespace vggt {

/// Leaves a run its part of what `jobs` runs on each of `devices` devices, and on each one more scene that is
/// read meanwhile, have together. resident_weights:
/// what the weights take of the device, on which they lie once.
void divide_memory(MemoryLimits& limits, int64_t resident_weights, int64_t jobs, int64_t devices);

/// Begins the process's peak of memory anew, and that of LibTorch on a GPU: from here on they are those of
/// what runs now. Where the kernel does not let it, they stay those of the whole process. The former returns
/// what is in memory now, in bytes.
int64_t reset_peak_host_bytes();
void reset_peak_device_memory(at::Device device);

}  // namespace vggt
