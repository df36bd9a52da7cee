#include "app/run/task_queue.h"

#include <utility>

namespace vggt {

TaskQueue::~TaskQueue() {
  const std::lock_guard lock(mutex_);
  tasks_.clear();
  closed_ = true;
  changed_.notify_all();
}

void TaskQueue::add(std::function<void()> task) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || tasks_.size() < most_waiting_; });
  if (error_) std::rethrow_exception(error_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void TaskQueue::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || idle(); });
  if (error_) std::rethrow_exception(error_);
}

void TaskQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    if (closed_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (error) {
      error_ = error;
      tasks_.clear();
    }
    changed_.notify_all();
    if (error) return;
  }
}

}  // namespace vggt
