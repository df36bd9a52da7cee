#pragma once
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <set>
#include <utility>

namespace vggt::testing {

/// LibTorch's allocator of the CPU, which fails where it is told to. It is in place while it lives; tensors
/// made meanwhile must go before it.
class FailingAllocator : public c10::Allocator {
 public:
  static constexpr std::size_t kLarge = 1024;  // bytes; smaller allocations neither count nor fail

  FailingAllocator() : real_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~FailingAllocator() override { c10::SetCPUAllocator(real_, kPriority); }
  FailingAllocator(const FailingAllocator&) = delete;
  FailingAllocator& operator=(const FailingAllocator&) = delete;

  /// From now on the large allocations of these numbers, from 1 on, fail; and all from `every` on.
  void arm(std::set<int64_t> faults, int64_t every = kNever) {
    const std::lock_guard lock(mutex_);
    faults_ = std::move(faults);
    every_ = every;
    count_ = failed_ = 0;
    pauses_ = 0;
    armed_ = true;
  }
  void disarm() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
  }
  int64_t count() const { return count_; }
  int64_t failed() const { return failed_; }

  /// No allocation counts in this scope: what a test does in the middle of a run.
  class Pause {
   public:
    explicit Pause(FailingAllocator& allocator) : allocator_(allocator) { ++allocator_.pauses_; }
    ~Pause() { --allocator_.pauses_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    FailingAllocator& allocator_;
  };

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= kLarge && pauses_ == 0) fail_if_due(bytes);
    return real_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static constexpr uint8_t kPriority = 100;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void fail_if_due(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!armed_ || (!faults_.contains(++count_) && count_ < every_)) return;
    ++failed_;
    if (count_ % 2 == 0) throw std::bad_alloc();  // as memory of the host does that is not a tensor's
    TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                " bytes. Error code 12 (Cannot allocate memory)");
  }

  c10::Allocator* real_;
  std::mutex mutex_;
  std::set<int64_t> faults_;
  int64_t every_ = kNever;
  std::atomic<int64_t> count_ = 0, failed_ = 0;
  std::atomic<int> pauses_ = 0;
  bool armed_ = false;
};

}  // namespace vggt::testing
