#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/piece_store.h"
#include "io/frames/decoding_budget.h"
#include "io/frames/preprocess.h"

namespace vggt {

/// One source image to be decoded and brought to network size.
struct FrameTask {
  std::string file;
  double time_s = 0;
  std::string where;  // for messages
  /// Decodes the image. A decoder that shares a budget puts its lease into the argument, which holds it until
  /// the frame is made. Throws std::invalid_argument or std::system_error for a bad file.
  std::function<DecodedImage(std::optional<DecodingBudget::Lease>&)> decode;
};

/// The result of a task: a frame at network size, or the reason why there is none.
struct FrameResult {
  Frame frame = {};
  int width = 0, height = 0;  // before it is padded to the size of the others
  std::string problem = {};   // one line; empty if all is well
};

/// Does what makes one frame, and says in one line, with `where` in front, why it failed; empty: it did not.
/// Throws std::system_error where the frame is not to blame.
std::string problem_of(const std::string& where, const std::function<void()>& work);

/// Gives the next task, or nothing after the last. One thread at a time calls it.
using NextTask = std::function<std::optional<FrameTask>()>;

/// Where gray copies of the originals go, if they are wanted, and how many pixels each may have.
struct GrayStore {
  PieceStore* pieces = nullptr;
  std::size_t pixels = 0;
};

/// Runs tasks on several threads. Results come in the order of the tasks, whatever the threads do; the pixels
/// of the i-th, planes [3,height,width], become piece i of `pixels`, and its gray copy piece i of `gray`.
/// With `strict`, no task is begun after one failed. progress(done) is called from the calling thread; an
/// exception out of it stops the threads and passes through, as one out of `next` does.
std::vector<FrameResult> run_frame_tasks(const FrameOptions& options, const NextTask& next,
                                         PieceStore& pixels, const std::function<void(int done)>& progress,
                                         const GrayStore& gray = {});

}  // namespace vggt
