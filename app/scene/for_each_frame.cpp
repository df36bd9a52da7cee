#include "app/scene/for_each_frame.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "io/files/machine_share.h"

namespace vggt {

int threads_for(const FrameWork& work, int frames) {
  const int cores = static_cast<int>(usable_cores());
  return std::clamp(work.threads > 0 ? work.threads : cores, 1, std::max(1, frames));
}

void for_each_frame(const FrameWork& work, int frames, const std::function<void(int, int)>& body) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int thread) {
    try {
      for (int frame = next++; frame < frames; frame = next++) {
        if (work.check_stop) work.check_stop();
        body(frame, thread);
      }
    } catch (...) {
      next = frames;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads_for(work, frames); ++thread) others.emplace_back(run, thread);
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace vggt
