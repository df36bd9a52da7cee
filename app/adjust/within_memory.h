#pragma once
#include <exception>
#include <mutex>
#include <new>
#include <opencv2/core.hpp>
#include <optional>
#include <string>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "app/events/events.h"

// What an adjustment does where memory runs out.
namespace vggt {

/// Whether memory ran out, in OpenCV or elsewhere.
inline bool means_no_memory(const std::exception& error) {
  const auto* of_opencv = dynamic_cast<const cv::Exception*>(&error);
  return dynamic_cast<const std::bad_alloc*>(&error) || (of_opencv && of_opencv->code == cv::Error::StsNoMem);
}

/// While any of them lives, OpenCV starts no thread in this process: it would wait without end for those that
/// it has no memory for.
class OneThread {
 public:
  OneThread() {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0) before_ = cv::getNumThreads();
    cv::setNumThreads(1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) cv::setNumThreads(before_);
  }

 private:
  static inline std::mutex mutex_;
  static inline int count_ = 0, before_ = 0;
};

/// Calls work(whether lean). Where memory runs out and it was not, it is from then on, and the work begins
/// again.
template <class Work>
void within_memory(const MatchInput& input, const Events& events, std::optional<OneThread>& lean,
                   const Work& work) {
  try {
    return work(lean.has_value());
  } catch (const std::exception& error) {
    if (lean || !means_no_memory(error) || dynamic_cast<const TooManyEquations*>(&error)) throw;
  }
  lean.emplace();
  const bool has_files = input.space->end_memory();
  events.warn(std::string("out of memory in the adjustment; going on with one pair of frames at once") +
              (has_files ? " and the scratch folder" : ""));
  work(true);
}

}  // namespace vggt
