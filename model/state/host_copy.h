#pragma once
#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <optional>

namespace vggt {

/// Copies tensors to page-locked memory of the host, one after another, beside what the device does
/// meanwhile.
class HostCopy {
 public:
  HostCopy() = default;
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy();  // waits

  /// Queues the copy of x, behind what the current stream has been given so far.
  void start(const at::Tensor& x);
  /// Waits for it -> what x was, contiguous on the CPU, in memory of its own.
  at::Tensor finish();

 private:
  at::Tensor copy_;
  std::optional<c10::Event> done_;
};

}  // namespace vggt
