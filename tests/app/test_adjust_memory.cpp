// Memory that runs out in an adjustment: it begins again with less, or leaves the scene as it was.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <opencv2/core.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/adjusted_scene.h"
#include "tests/support/failing_new.h"
#include "tests/support/media.h"

namespace {

using namespace vggt;
using namespace vggt::test;

constexpr std::size_t kLarge = 4096;  // bytes

Events keeping(std::vector<std::string>& warnings) {
  Events events;
  events.on_message = [&warnings](Message kind, const std::string& text) {
    if (kind == Message::warning) warnings.push_back(text);
  };
  return events;
}

void expect_equal(const std::vector<Camera>& found, const std::vector<Camera>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t f = 0; f < wanted.size(); ++f) {
    EXPECT_EQ(found[f].cam_from_world.matrix(), wanted[f].cam_from_world.matrix());
    EXPECT_EQ(found[f].k, wanted[f].k);
  }
}

AdjustOptions within(std::size_t bytes) {
  AdjustOptions options;
  options.most_bytes = bytes;
  return options;
}

AdjustOptions must(std::size_t bytes = AdjustOptions().most_bytes) {
  AdjustOptions options = within(bytes);
  options.must = true;
  return options;
}

class AdjustMemory : public ::testing::Test {
 protected:
  /// With these faults from the moment on that the adjustment begins. adjusted: its depth, too.
  AdjustedScene run(int64_t first, int64_t last, std::size_t least, AdjustOptions options = {}) {
    MatchInput input = scene_.input();
    if (change_input_) change_input_(input);
    DenseMaps maps(input.space, "depth");
    for (std::size_t f = 0; f < scene_.depth.size(); ++f)
      maps.put_values(static_cast<int>(f), scene_.depth[f]);
    const Events events = keeping(warnings_);
    AdjustedScene result;
    {
      const Faults faults(first, last, least);
      result = adjust_scene(input, maps, given_, options, events);
      allocations_ = g_count;
    }
    depth_.clear();
    DenseMaps::Buffer buffer;
    for (std::size_t f = 0; f < scene_.depth.size(); ++f) {
      const std::span<const float> values = maps.values(static_cast<int>(f), buffer);
      depth_.emplace_back(values.begin(), values.end());
    }
    return result;
  }

  const Scene scene_ = bent_scene();
  const std::vector<Camera> given_ = beside(scene_.cameras);
  std::function<void(MatchInput&)> change_input_;
  std::vector<std::string> warnings_;
  std::vector<std::vector<float>> depth_;
  int64_t allocations_ = 0;
};

TEST_F(AdjustMemory, OneFailedAllocationAnywhereChangesNothing) {
  constexpr int64_t kRuns = 40;
  const AdjustedScene whole = run(0, 0, 0);
  ASSERT_TRUE(whole.changed);
  const std::vector<std::vector<float>> depth = depth_;
  const int64_t all = allocations_;
  ASSERT_GT(all, 10 * kRuns);
  for (int64_t i = 0; i < kRuns; ++i) {
    const int64_t at = i * all / kRuns + i % 7;
    SCOPED_TRACE(at);
    warnings_.clear();
    const AdjustedScene result = run(at, at + 1, 0);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_NE(warnings_[0].find("out of memory in the adjustment; going on"), std::string::npos);
    expect_equal(result.cameras, whole.cameras);
    EXPECT_EQ(result.summary, whole.summary);
    EXPECT_EQ(result.tracks.size(), whole.tracks.size());
    EXPECT_EQ(depth_, depth);
  }
}

TEST_F(AdjustMemory, WithoutMemoryTheSceneStays) {
  const AdjustedScene whole = run(0, 0, kLarge);
  const int64_t all = allocations_;
  for (const int64_t share : {0, 1, 2, 3}) {
    SCOPED_TRACE(share);
    warnings_.clear();
    const AdjustedScene result = run(share * all / 4, all * 100, kLarge);
    EXPECT_FALSE(result.changed);
    EXPECT_EQ(result.summary, "not adjusted: out of memory");
    EXPECT_TRUE(result.tracks.empty());
    ASSERT_EQ(warnings_.size(), 2U);
    EXPECT_NE(warnings_[1].find("are not adjusted"), std::string::npos);
    ASSERT_EQ(result.cameras.size(), given_.size());
    for (std::size_t f = 0; f < given_.size(); ++f)
      EXPECT_TRUE(result.cameras[f].cam_from_world.isApprox(given_[f].cam_from_world, 1e-12));
    EXPECT_EQ(depth_, scene_.depth);
  }
}

TEST_F(AdjustMemory, AnAdjustmentThatMustBeThrows) {
  EXPECT_THROW(run(0, 1'000'000'000, kLarge, must()), std::bad_alloc);
  EXPECT_EQ(warnings_.size(), 1U);
}

// One pair of frames at once would take no less of them.
TEST_F(AdjustMemory, WhereEquationsMayNotTakeSoMuchTheSceneStaysAtOnce) {
  const AdjustedScene result = run(0, 0, 0, within(100'000));
  EXPECT_FALSE(result.changed);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("are not adjusted"), std::string::npos);
  EXPECT_EQ(depth_, scene_.depth);
  EXPECT_THROW(run(0, 0, 0, must(100'000)), std::bad_alloc);
  EXPECT_TRUE(run(0, 0, 0, within(100'000'000)).changed);
}

// The last of its allocations are for maps that replace the given ones.
TEST_F(AdjustMemory, DepthIsWrittenWholeOrTheRunEnds) {
  const AdjustedScene whole = run(0, 0, kLarge);
  const std::vector<std::vector<float>> depth = depth_;
  const int64_t last = allocations_ - 1;
  const AdjustedScene result = run(last, last + 1, kLarge);
  EXPECT_EQ(warnings_.size(), 1U);
  expect_equal(result.cameras, whole.cameras);
  EXPECT_EQ(depth_, depth);
  EXPECT_THROW(run(last, last + 1000, kLarge), std::bad_alloc);
}

TEST_F(AdjustMemory, OpenCvsLackOfMemoryIsOneToo) {
  const AdjustedScene whole = run(0, 0, 0);
  std::atomic<int> reads = 0;
  change_input_ = [&](MatchInput& input) {
    input.read_rgb = [&reads, read = input.read_rgb](std::size_t frame, std::span<uint8_t> rgb) {
      if (reads++ == 2) CV_Error(cv::Error::StsNoMem, "Failed to allocate");
      read(frame, rgb);
    };
  };
  const AdjustedScene result = run(0, 0, 0);
  EXPECT_EQ(warnings_.size(), 1U);
  expect_equal(result.cameras, whole.cameras);
}

TEST_F(AdjustMemory, GoesOnInTheScratchFolder) {
  const AdjustedScene whole = run(0, 0, kLarge);
  const std::vector<std::vector<float>> depth = depth_;
  const TemporaryFolder folder;
  std::shared_ptr<HostSpace> space;
  change_input_ = [&](MatchInput& input) {
    input.space = space = std::make_shared<HostSpace>(HostStorage{int64_t{1} << 40, folder / ""});
  };
  const AdjustedScene result = run(allocations_ / 2, allocations_ / 2 + 1, kLarge);
  expect_equal(result.cameras, whole.cameras);
  EXPECT_EQ(depth_, depth);
  EXPECT_FALSE(space->take(1)) << "the memory has ended";
}

// Where memory has no room, depth maps and images lie in a file: nothing else changes.
TEST_F(AdjustMemory, DoesNotDependOnWhereMapsLie) {
  const Scene scene = bent_scene();
  const std::vector<Camera> given = beside(scene.cameras);
  const Adjusted in_memory = adjust(scene, given);
  ASSERT_TRUE(in_memory.changed) << in_memory.summary;
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "adjust_scene_maps";
  std::filesystem::create_directories(folder);
  for (const int64_t room : {int64_t{0}, static_cast<int64_t>(3 * kPixels * sizeof(float))}) {
    MatchInput input = scene.input();
    input.space = std::make_shared<HostSpace>(HostStorage{room, folder});
    const Adjusted in_files = adjust(scene, input, given);
    EXPECT_EQ(in_memory.depth, in_files.depth) << room;
    EXPECT_EQ(in_memory.summary, in_files.summary) << room;
    for (std::size_t f = 0; f < given.size(); ++f) {
      EXPECT_EQ(in_memory.cameras[f].cam_from_world.matrix(), in_files.cameras[f].cam_from_world.matrix());
    }
    EXPECT_TRUE(input.space->take(room)) << "nothing is kept";
    input.space.reset();
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << room;
  }
  std::filesystem::remove_all(folder);
}

// Without a scratch folder, maps that memory has no room for end the run.
TEST_F(AdjustMemory, RefusesWhatHasNoRoom) {
  const Scene scene;
  MatchInput input = scene.input();
  DenseMaps maps(std::make_shared<HostSpace>(), "depth");
  for (std::size_t f = 0; f < scene.depth.size(); ++f) maps.put_values(static_cast<int>(f), scene.depth[f]);
  input.space = std::make_shared<HostSpace>(HostStorage{static_cast<int64_t>(kPixels), {}});
  EXPECT_THROW(adjust_scene(input, maps, scene.cameras, {}, {}), std::system_error);
}

}  // namespace
