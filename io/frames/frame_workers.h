#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/frames/decoding_budget.h"
#include "io/frames/preprocess.h"

namespace vggt {

/// A source image on its way to network size.
struct FrameTask {
  std::string file;
  double time_s = 0;
  std::string where;  // for warnings
  /// Decodes it. Throws std::invalid_argument or std::system_error for a bad file.
  std::function<DecodedImage(std::optional<MemoryBudget::Lease>&)> decode;
};

/// What became of one: a frame of width × height, or the reason why there is none.
struct FrameResult {
  Frame frame;  // without its rgb
  FittedImage image;
  std::string problem;
};

/// Hands out tasks in sequence until there are none; called by one thread at a time.
using NextTask = std::function<std::optional<FrameTask>()>;

/// Runs tasks on several threads ahead of each other; results come in the order of the tasks whatever the
/// threads do. With `strict`, no task is begun after one failed. progress(done) is called from the calling
/// thread; what it throws stops the threads and passes through.
std::vector<FrameResult> run_frame_tasks(const FrameOptions& options, const NextTask& next,
                                         const std::function<void(int done)>& progress);

}  // namespace vggt
