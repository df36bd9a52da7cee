#include "model/state/host_copy.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "model/state/host_memory.h"

namespace vggt {

void HostCopy::start(const at::Tensor& x) {
  const at::Tensor values = x.contiguous();
  if (values.is_cpu()) {
    copy_ = values;
    return;
  }
  const auto bytes = static_cast<int64_t>(values.nbytes());
  if (!memory_.defined() || memory_.numel() < bytes) memory_ = host_tensor({bytes}, at::kByte, true);
  copy_ = memory_.narrow(0, 0, bytes).view(values.scalar_type()).view(values.sizes());
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
  if (!done_) return std::move(copy_);
  done_->synchronize();
  done_.reset();
  return copy_.clone();
}

}  // namespace vggt
