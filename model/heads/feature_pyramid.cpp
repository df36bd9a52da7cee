#include "model/heads/feature_pyramid.h"

#include <algorithm>

namespace vggt {

FeaturePyramid::FeaturePyramid(int64_t frames, int64_t levels, int64_t device_bytes)
    : frames_(frames), levels_(levels), device_bytes_(device_bytes) {}

void FeaturePyramid::allocate(const at::Tensor& maps) {
  device_ = maps.device();
  const int64_t C = maps.size(3);
  int64_t frame_bytes = 0, h = maps.size(1), w = maps.size(2);
  for (int64_t level = 0; level < levels_; ++level)
    frame_bytes += (h >> level) * (w >> level) * C * static_cast<int64_t>(maps.element_size());
  device_frames_ = std::clamp<int64_t>(device_bytes_ / std::max<int64_t>(1, frame_bytes), 0, frames_);
  const at::TensorOptions host = maps.options().device(at::kCPU).pinned_memory(device_.is_cuda());
  for (int64_t level = 0; level < levels_; ++level, h /= 2, w /= 2) {
    levels_of_.push_back({at::empty({device_frames_, C, h, w}, maps.options()),
                          at::empty({frames_ - device_frames_, C, h, w}, host)});
  }
}

void FeaturePyramid::put(int64_t first, const at::Tensor& maps) {
  if (levels_of_.empty()) allocate(maps);
  TORCH_CHECK(first >= 0 && first + maps.size(0) <= frames_, "FeaturePyramid: expected frames below ",
              frames_, ", got ", first, " to ", first + maps.size(0));
  const int64_t end = first + maps.size(0);
  if (first < device_frames_ && end > device_frames_) {
    put(first, maps.narrow(0, 0, device_frames_ - first));
    put(device_frames_, maps.narrow(0, device_frames_ - first, end - device_frames_));
    return;
  }
  at::Tensor level = maps.permute({0, 3, 1, 2}).contiguous();  // [F,C,h,w]
  for (int64_t i = 0; i < levels_; ++i) {
    if (i > 0) level = at::avg_pool2d(level, 2);
    const bool on_device = first < device_frames_;
    const at::Tensor& store = on_device ? levels_of_[i].device : levels_of_[i].host;
    // To pinned memory the copy goes on beside the next frames; get() reads it on the same stream.
    store.narrow(0, on_device ? first : first - device_frames_, maps.size(0))
        .copy_(level, /*non_blocking=*/true);
  }
}

std::vector<at::Tensor> FeaturePyramid::get(int64_t first, int64_t count) const {
  const bool on_device = first < device_frames_;
  TORCH_CHECK(!on_device || first + count <= device_frames_, "FeaturePyramid: frames ", first, " to ",
              first + count, " lie on both sides of ", device_frames_);
  std::vector<at::Tensor> maps;
  for (const Level& level : levels_of_) {
    maps.push_back(on_device ? level.device.narrow(0, first, count)
                             : level.host.narrow(0, first - device_frames_, count)
                                   .to(device_, level.host.scalar_type(), /*non_blocking=*/true));
  }
  return maps;
}

}  // namespace vggt
