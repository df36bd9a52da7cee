#pragma once
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

namespace vggt {

/// Memory that the decoding threads share. A request waits until it fits, or until nothing else is held: a
/// single image larger than the budget is still decoded.
class DecodingBudget {
 public:
  explicit DecodingBudget(std::size_t bytes) : limit_(bytes) {}

  /// Holds bytes of the budget while it lives; its constructor waits for them.
  class Lease {
   public:
    Lease(DecodingBudget& budget, std::size_t bytes) : budget_(budget), bytes_(bytes) { budget_.take(bytes); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { budget_.give_back(bytes_); }

   private:
    DecodingBudget& budget_;
    std::size_t bytes_;
  };

 private:
  void take(std::size_t bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return holders_ == 0 || (held_ <= limit_ && bytes <= limit_ - held_); });
    held_ += bytes;
    ++holders_;
  }
  void give_back(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      held_ -= bytes;
      --holders_;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t limit_, held_ = 0;
  int holders_ = 0;
};

}  // namespace vggt
