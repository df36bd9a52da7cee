#include "io/files/host_storage.h"

#include <cerrno>
#include <system_error>

namespace vggt {

void HostSpace::set_bytes(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  left_ += bytes - storage_.bytes;
  storage_.bytes = bytes;
}

bool HostSpace::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (ended_ || bytes > left_) return false;
  left_ -= bytes;
  return true;
}

void HostSpace::give_back(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  left_ += bytes;
}

int64_t HostSpace::taken() {
  const std::lock_guard lock(mutex_);
  return storage_.bytes - left_;
}

bool HostSpace::end_memory() {
  const std::lock_guard lock(mutex_);
  if (storage_.scratch) ended_ = true;
  return ended_;
}

const ScratchFolder& HostSpace::folder() {
  const std::lock_guard lock(mutex_);
  if (!storage_.scratch) {
    throw std::system_error(ENOMEM, std::generic_category(),
                            "the run needs more than the " + std::to_string(storage_.bytes / 1'000'000) +
                                " MB of host memory that it may take, and has no scratch folder (--scratch)");
  }
  if (!folder_) folder_ = std::make_unique<ScratchFolder>(*storage_.scratch);
  return *folder_;
}

}  // namespace vggt
