#include "io/frames/frame_workers.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "io/files/system_fault.h"

namespace vggt {
namespace {

FrameResult run_task(const FrameTask& task, const FrameOptions& options) try {
  FrameResult result;
  std::optional<DecodingBudget::Lease> lease;
  const DecodedImage image = task.decode(lease);
  result.image = fit_image(image, options.fit, options.width, options.patch_size);
  result.frame.file = task.file;
  result.frame.time_s = task.time_s;
  result.frame.original_width = image.pixels.cols;
  result.frame.original_height = image.pixels.rows;
  return result;
} catch (const std::invalid_argument& error) {
  return {{}, {}, task.where + ": " + error.what()};
} catch (const std::system_error& error) {
  if (fault_of(error.code()) != SystemFault::input) throw;  // the frame is not to blame
  return {{}, {}, task.where + ": cannot be read: " + error.code().message()};
}

class Workers {
 public:
  Workers(const FrameOptions& options, const NextTask& next) : options_(options), next_(next) {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    running_ = options.threads > 0 ? options.threads : static_cast<int>(cores);
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
    return {std::make_move_iterator(results_.begin()), std::make_move_iterator(results_.end())};
  }

 private:
  // One thread at a time, as next_ may decode a video.
  std::optional<FrameTask> take_task(FrameResult*& slot) {
    const std::lock_guard taking(taking_);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return std::nullopt;
    }
    std::optional<FrameTask> task = next_();
    const std::lock_guard lock(mutex_);
    if (task) slot = &results_.emplace_back();
    return task;
  }

  void work() {
    std::exception_ptr error;
    try {
      FrameResult* slot = nullptr;
      while (const std::optional<FrameTask> task = take_task(slot)) {
        FrameResult result = run_task(*task, options_);
        const std::lock_guard lock(mutex_);
        if (options_.strict && !result.problem.empty()) stopped_ = true;
        *slot = std::move(result);
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
  std::mutex taking_, mutex_;
  std::condition_variable changed_;
  std::deque<FrameResult> results_;  // a deque, because its elements stay where they are
  std::exception_ptr error_;
  int done_ = 0, running_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // last, so that they are joined before the other members go
};

}  // namespace

std::vector<FrameResult> run_frame_tasks(const FrameOptions& options, const NextTask& next,
                                         const std::function<void(int done)>& progress) {
  Workers workers(options, next);
  for (int seen = 0, done = 0; (done = workers.wait_for_more(seen)) > seen; seen = done) {
    if (progress) progress(done);
  }
  return workers.take_results();
}

}  // namespace vggt
