#include "io/frames/frame_workers.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "io/files/machine_share.h"
#include "io/files/system_fault.h"

namespace vggt {
namespace {

FrameResult run_task(const FrameTask& task, const FrameOptions& options, std::size_t gray_pixels,
                     FittedImage& fitted, GrayImage& gray) {
  FrameResult result;
  const std::string problem = problem_of(task.where, [&] {
    std::optional<DecodingBudget::Lease> lease;
    const DecodedImage image = task.decode(lease);
    fitted = fit_image(image, options.fit, options.width, options.patch_size);
    if (gray_pixels > 0) gray = gray_copy(image, options.gray_side, gray_pixels);
    result.frame.gray_width = gray.width;
    result.frame.gray_height = gray.height;
    result.frame.camera = image.camera;
    result.frame.quarter_turns = image.quarter_turns;
    result.frame.is_clipped = is_clipped(image);
    result.frame.source_bytes = image.source_bytes;
    result.width = fitted.width;
    result.height = fitted.height;
    result.frame.map = fitted.map;
    result.frame.file = task.file;
    result.frame.time_s = task.time_s;
    result.frame.original_width = image.pixels.cols;
    result.frame.original_height = image.pixels.rows;
  });
  if (!problem.empty()) return {.problem = problem};
  return result;
}

class Workers {
 public:
  Workers(const FrameOptions& options, const NextTask& next, PieceStore& pixels, const GrayStore& gray)
      : options_(options), next_(next), pixels_(pixels), gray_(gray) {
    running_ = options.threads > 0 ? options.threads : static_cast<int>(usable_cores());
    for (int i = running_; i > 0; --i) threads_.emplace_back([this] { work(); });
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;  // the destructors of the threads then join them
  }

  // Waits until there are more than `seen` results, or until no more will come; returns their number.
  int wait_for_more(int seen) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ > seen || running_ == 0; });
    return done_;
  }
  std::vector<FrameResult> take_results() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return std::move(results_);
  }

 private:
  // One thread at a time, as next_ may decode a video.
  std::optional<FrameTask> take_task(std::size_t& number) {
    const std::lock_guard taking(taking_);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return std::nullopt;
    }
    std::optional<FrameTask> task = next_();
    const std::lock_guard lock(mutex_);
    if (task) {
      number = results_.size();
      results_.emplace_back();
    }
    return task;
  }

  void work() {
    std::exception_ptr error;
    try {
      std::size_t number = 0;
      while (const std::optional<FrameTask> task = take_task(number)) {
        FittedImage image;
        GrayImage gray;
        FrameResult result = run_task(*task, options_, gray_.pieces ? gray_.pixels : 0, image, gray);
        if (result.problem.empty()) {
          pixels_.put(number, std::as_bytes(std::span(image.rgb)));
          if (gray_.pieces) gray_.pieces->put(number, std::as_bytes(std::span(gray.pixels)));
        }
        const std::lock_guard lock(mutex_);
        if (options_.strict && !result.problem.empty()) stopped_ = true;
        results_[number] = std::move(result);
        ++done_;
        changed_.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (error) {
      stopped_ = true;
      error_ = error;
    }
    --running_;
    changed_.notify_all();
  }

  const FrameOptions& options_;
  const NextTask& next_;
  PieceStore& pixels_;
  const GrayStore gray_;
  std::mutex taking_, mutex_;
  std::condition_variable changed_;
  std::vector<FrameResult> results_;
  std::exception_ptr error_;
  int done_ = 0, running_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // last, so that they are joined before the other members go
};

}  // namespace

std::string problem_of(const std::string& where, const std::function<void()>& work) try {
  work();
  return {};
} catch (const std::invalid_argument& error) {
  return where + ": " + error.what();
} catch (const std::system_error& error) {
  if (fault_of(error.code()) != SystemFault::input) throw;  // the frame is not to blame
  return where + ": cannot be read: " + error.code().message();
}

std::vector<FrameResult> run_frame_tasks(const FrameOptions& options, const NextTask& next,
                                         PieceStore& pixels, const std::function<void(int done)>& progress,
                                         const GrayStore& gray) {
  Workers workers(options, next, pixels, gray);
  for (int seen = 0, done = 0; (done = workers.wait_for_more(seen)) > seen; seen = done) {
    if (progress) progress(done);
  }
  return workers.take_results();
}

}  // namespace vggt
