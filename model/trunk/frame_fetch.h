#pragma once
#include <ATen/ATen.h>

#include <future>
#include <vector>

#include "model/frame_provider.h"

namespace vggt {

/// Frames [first, first + count).
struct FrameRange {
  int64_t first = 0, count = 0;
  bool operator==(const FrameRange&) const = default;
};

/// Frames for a device. A GPU's come in page-locked memory, and the next ones on another thread while the
/// device works on those before.
class FrameFetch {
 public:
  /// frames: must outlive it.
  FrameFetch(const FrameProvider& frames, at::Device device) : frames_(frames), device_(device) {}
  ~FrameFetch();

  /// The frames of each range [count,3,H,W], on the CPU; of none an undefined tensor. Throws what the
  /// provider throws, and c10::Error where it gives other sizes.
  std::vector<at::Tensor> take(const std::vector<FrameRange>& ranges);
  /// Those that the next take() asks for, if it asks for these.
  void begin(const std::vector<FrameRange>& ranges);

 private:
  at::Tensor get(const FrameRange& range) const;
  std::vector<at::Tensor> get_all(const std::vector<FrameRange>& ranges) const;

  const FrameProvider& frames_;
  const at::Device device_;
  std::vector<FrameRange> begun_;
  std::future<std::vector<at::Tensor>> coming_;
};

}  // namespace vggt
