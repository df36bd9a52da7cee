// Tasks run in their order on another thread; few wait, and an error comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "app/run/task_queue.h"

namespace vggt {
namespace {

TEST(TaskQueue, RunsInOrderAndFewWait) {
  std::vector<int> done;
  std::atomic<int> waiting = 0, most = 0;
  const auto caller = std::this_thread::get_id();
  TaskQueue queue(2);
  for (int i = 0; i < 100; ++i) {
    most = std::max<int>(most, ++waiting);
    queue.add([&, i] {
      --waiting;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      EXPECT_NE(std::this_thread::get_id(), caller);
      done.push_back(i);
    });
  }
  queue.finish();
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_LE(most, 4);  // two that wait, one that is being added, one that has just begun
}

TEST(TaskQueue, AnErrorEndsItAndComesBack) {
  std::atomic<int> begun = 0;
  TaskQueue queue(1);
  queue.add([] { throw std::runtime_error("full disk"); });
  const auto add_many = [&] {
    for (int i = 0; i < 10; ++i) queue.add([&] { ++begun; });
  };
  EXPECT_THROW(add_many(), std::runtime_error);
  EXPECT_THROW(queue.finish(), std::runtime_error);
  EXPECT_EQ(begun, 0);
}

TEST(TaskQueue, WhatHasNotBegunIsDropped) {
  std::atomic<int> begun = 0;
  std::promise<void> ending;
  std::shared_future<void> ends = ending.get_future().share();
  {
    TaskQueue queue(5);
    for (int i = 0; i < 5; ++i) {
      queue.add([&begun, ends] {
        ++begun;
        ends.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      });
    }
    while (begun == 0) std::this_thread::yield();
    ending.set_value();
  }
  EXPECT_LT(begun, 5);
}

}  // namespace
}  // namespace vggt
