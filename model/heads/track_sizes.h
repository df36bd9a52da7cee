#pragma once
#include <cstdint>

namespace vggt {

/// How much the tracker takes at one time. The tracks do not depend on it.
struct TrackSizes {
  int64_t device_bytes = 0;          // of feature maps that stay on the device
  int64_t host_frames = 1;           // whose maps come from host memory at once
  int64_t correlation_elements = 1;  // of one correlation volume; it holds one frame at least
};

}  // namespace vggt
