#include "model/state/host_copy.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace vggt {

void HostCopy::start(const at::Tensor& x) {
  const at::Tensor values = x.contiguous();
  if (values.is_cpu()) {
    copy_ = values;
    return;
  }
  // LibTorch keeps page-locked memory for the next one.
  copy_ = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
  copy_.copy_(values, /*non_blocking=*/true);
  done_.emplace(values.device().type());
  done_->record(c10::impl::VirtualGuardImpl(values.device().type()).getStream(values.device()));
}

HostCopy::~HostCopy() {
  try {
    if (done_) done_->synchronize();
  } catch (...) {  // the device has failed: nothing is copied any more
  }
}

at::Tensor HostCopy::finish() {
  if (done_) done_->synchronize();
  done_.reset();
  return std::move(copy_);
}

}  // namespace vggt
