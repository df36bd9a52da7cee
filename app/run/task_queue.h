#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace vggt {

/// Runs tasks one after the other on a thread of its own, so that whoever gives them need not wait. Only a
/// few wait at a time: what they hold does not pile up.
class TaskQueue {
 public:
  explicit TaskQueue(std::size_t most_waiting) : most_waiting_(most_waiting), thread_([this] { work(); }) {}
  /// Drops the tasks that have not begun.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Waits while too many tasks wait. Throws what an earlier task threw; no task begins after that one.
  void add(std::function<void()> task);
  /// Waits until all tasks are done. Throws as add().
  void finish();

 private:
  void work();
  bool idle() const { return tasks_.empty() && !busy_; }

  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::exception_ptr error_;
  bool busy_ = false, closed_ = false;
  std::jthread thread_;  // last, so that it is joined before the other members go
};

}  // namespace vggt
