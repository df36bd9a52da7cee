#pragma once
#include <functional>

namespace vggt {

/// How work over frames is done: on so many threads (0: one per core), stopped by what `check_stop` throws.
struct FrameWork {
  int threads = 0;
  std::function<void()> check_stop;  // called from all threads; may be empty
};

/// The number of threads that for_each_frame() uses.
int threads_for(const FrameWork& work, int frames);

/// Calls body(frame, thread) for frames [0, frames), each once, with thread in [0, threads_for()). The first
/// exception ends the work and passes through.
void for_each_frame(const FrameWork& work, int frames,
                    const std::function<void(int frame, int thread)>& body);

}  // namespace vggt
