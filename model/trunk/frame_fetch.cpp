#include "model/trunk/frame_fetch.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <system_error>
#include <utility>

namespace vggt {

FrameFetch::~FrameFetch() {
  if (coming_.valid()) coming_.wait();
}

at::Tensor FrameFetch::get(const FrameRange& range) const {
  if (range.count == 0) return {};
  at::Tensor images = frames_.get(range.first, range.count);
  TORCH_CHECK(images.sizes() == at::IntArrayRef({range.count, 3, frames_.height, frames_.width}),
              "frames: expected ", at::IntArrayRef({range.count, 3, frames_.height, frames_.width}), ", got ",
              images.sizes());
  return device_.is_cuda() ? images.pin_memory() : images;
}

std::vector<at::Tensor> FrameFetch::get_all(const std::vector<FrameRange>& ranges) const {
  const c10::InferenceMode inference;
  const c10::OptionalDeviceGuard guard(device_.is_cuda() ? std::optional(device_) : std::nullopt);
  std::vector<at::Tensor> all;
  for (const FrameRange& range : ranges) all.push_back(get(range));
  return all;
}

std::vector<at::Tensor> FrameFetch::take(const std::vector<FrameRange>& ranges) {
  if (coming_.valid()) {
    auto coming = std::exchange(coming_, {});
    if (begun_ == ranges) return coming.get();
    coming.wait();
  }
  return get_all(ranges);
}

void FrameFetch::begin(const std::vector<FrameRange>& ranges) {
  if (!device_.is_cuda() || coming_.valid()) return;
  begun_ = ranges;
  try {
    coming_ = std::async(std::launch::async, [this, ranges] { return get_all(ranges); });
  } catch (const std::system_error&) {
    // There is no thread for it: take() gets them.
  }
}

}  // namespace vggt
