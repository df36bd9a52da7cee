#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace vggt {

/// A thread that does jobs one after the other.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Jobs that have not begun are left out; their futures throw std::future_error.
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      jobs_.clear();
    }
    changed_.notify_all();
    thread_.join();
  }

  /// The future is ready when the job is done, and throws what it threw.
  std::shared_future<void> post(std::function<void()> job) {
    std::packaged_task<void()> task(std::move(job));
    std::shared_future<void> done = task.get_future().share();
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(task));
    }
    changed_.notify_all();
    return done;
  }

 private:
  void work() {
    for (;;) {
      std::packaged_task<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
        if (stop_) return;
        task = std::move(jobs_.front());
        jobs_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace vggt
