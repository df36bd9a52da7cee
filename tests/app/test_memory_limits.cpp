// What the parts of a run may take, from the limits that the options set for the process.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "app/run/memory_limits.h"
#include "app/run/process_memory.h"
#include "app/run/run_plan.h"
#include "model/ranks/nccl_group.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

constexpr int64_t kUnlimited = MemoryBudget::kUnlimited;

Options with_host_memory(const std::string& text) {
  Options options;
  options.host_memory = text;
  return options;
}

std::string refusal_of(const Options& options) {
  return refusal([&] { choose_limits(options, at::kCPU); });
}

TEST(MemoryLimits, NothingIsLimitedUnlessAsked) {
  const MemoryLimits limits = choose_limits(Options(), at::kCPU);
  EXPECT_EQ(limits.network.device, kUnlimited);
  EXPECT_EQ(limits.network.host, kUnlimited);
  EXPECT_EQ(limits.storage.bytes, kUnlimited);
  EXPECT_FALSE(limits.network.scratch || limits.storage.scratch || limits.gpu_allocator);
}

TEST(MemoryLimits, TheProgramItselfIsPaidFirst) {
  for (const char* text : {"50MB", "1", "640MB"}) {
    const std::string message = refusal_of(with_host_memory(text));
    EXPECT_NE(message.find("host-memory: the program itself takes"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(refusal_of(with_host_memory("641MB")), "(accepted)");
}

TEST(MemoryLimits, RanksPayForNccl) {
  const at::Device gpu(at::kCUDA, 0);
  Options options = with_host_memory("6GB");
  options.gpu_memory = "4GB";
  const MemoryLimits one = choose_limits(options, gpu);
  for (int64_t ranks : {2, 3, 8}) {
    const MemoryLimits limits = choose_limits(options, gpu, 0, ranks);
    const int64_t nccl = nccl_device_bytes(ranks, NcclBuffers::few);
    EXPECT_GT(nccl, 0);
    EXPECT_LT(nccl, nccl_device_bytes(ranks, NcclBuffers::many));
    EXPECT_EQ(*one.gpu_allocator - *limits.gpu_allocator, nccl);
    EXPECT_LT(limits.network.device, *limits.gpu_allocator);
    EXPECT_EQ(one.storage.bytes + one.network.host - limits.storage.bytes - limits.network.host,
              kHostNcclBytes);
  }
  options.gpu_memory = "1.5GB";
  choose_limits(options, gpu);
  const std::string message = refusal([&] { choose_limits(options, gpu, 0, 2); });
  EXPECT_NE(message.find("of them NCCL"), std::string::npos) << message;
}

TEST(MemoryLimits, NetworkAndFramesShareTheRest) {
  const int64_t given = 2'000'000'000;
  const MemoryLimits limits = choose_limits(with_host_memory("2GB"), at::kCPU);
  EXPECT_GT(limits.storage.bytes, 0);
  EXPECT_GT(limits.network.host, limits.storage.bytes);
  EXPECT_LT(limits.storage.bytes + limits.network.host, given);
  const MemoryLimits more = choose_limits(with_host_memory("3GB"), at::kCPU);
  EXPECT_EQ(more.storage.bytes + more.network.host - limits.storage.bytes - limits.network.host,
            1'000'000'000);
  EXPECT_FALSE(limits.network.scratch);
}

TEST(MemoryLimits, ImagesHaveWhatTheNetworkDoesNotHold) {
  constexpr int64_t kWeights = 100'000'000, kImage = 1'000'000'000;
  MemoryLimits limits = choose_limits(with_host_memory("1.5GB"), at::kCPU);
  keep_weights(limits, kWeights);
  EXPECT_EQ(limits.images, limits.network.host - kWeights);
  EXPECT_EQ(decoding_bytes(limits), static_cast<std::size_t>(limits.images));
  ASSERT_LT(limits.images, kImage);
  MemoryLimits larger = choose_limits(with_host_memory(limits.host_memory_for(kImage)), at::kCPU);
  keep_weights(larger, kWeights);
  EXPECT_GE(larger.images, kImage);
  EXPECT_LT(larger.images, kImage + 1'000'000);
  // Too little for the weights leaves nothing, and says what would do all the same.
  MemoryLimits none = choose_limits(with_host_memory("690MB"), at::kCPU);
  keep_weights(none, kWeights);
  EXPECT_EQ(decoding_bytes(none), 0U);
  EXPECT_EQ(none.host_memory_for(kImage), limits.host_memory_for(kImage));
}

TEST(MemoryLimits, WithoutALimitImagesHaveNone) {
  MemoryLimits limits = choose_limits(Options(), at::kCPU);
  keep_weights(limits, 1'000'000'000);
  EXPECT_EQ(limits.images, kUnlimited);
  EXPECT_EQ(decoding_bytes(limits), FrameOptions().memory_budget_bytes);
}

TEST(MemoryLimits, BothHaveTheScratchFolder) {
  Options options = with_host_memory("2GB");
  options.scratch = VGGT_SOURCE_DIR;
  const MemoryLimits limits = choose_limits(options, at::kCPU);
  EXPECT_EQ(limits.network.scratch, VGGT_SOURCE_DIR);
  EXPECT_EQ(limits.storage.scratch, VGGT_SOURCE_DIR);
  options.scratch = "nowhere";
  EXPECT_THROW(choose_limits(options, at::kCPU), std::invalid_argument);
}

TEST(MemoryLimits, WithoutScratchFramesAndMapsHaveWhatTheyTake) {
  constexpr int64_t kStored = 1'000'000'000, kWeights = 50'000'000;
  MemoryLimits before = choose_limits(with_host_memory("2GB"), at::kCPU);
  keep_weights(before, kWeights);
  MemoryLimits limits = before;
  for (int times = 0; times < 2; ++times) limits.hold_in_memory(kStored);
  EXPECT_EQ(limits.storage.bytes, kStored);
  EXPECT_EQ(limits.shared(), before.shared());
  EXPECT_EQ(limits.images, limits.network.host - kWeights);
  EXPECT_EQ(limits.for_network(), before.network.host);

  MemoryLimits larger = choose_limits(with_host_memory(limits.host_memory_for(kStored)), at::kCPU);
  keep_weights(larger, kWeights);
  larger.hold_in_memory(kStored);
  EXPECT_GE(larger.images, kStored);
  EXPECT_LT(larger.images, kStored + 1'000'000);

  limits.hold_in_memory(1'000'000'000'000);  // more than there is: the network then fits nowhere
  EXPECT_EQ(limits.network.host, 0);
  MemoryLimits few = before, with_files = before;
  few.hold_in_memory(kStored);
  few.hold_in_memory(1'000'000);  // which takes the place of the first
  EXPECT_EQ(few.storage.bytes, before.storage.bytes);
  EXPECT_EQ(few.images, before.images);
  with_files.storage.scratch = VGGT_SOURCE_DIR;
  with_files.hold_in_memory(kStored);
  EXPECT_EQ(with_files.storage.bytes, before.storage.bytes);
}

TEST(MemoryLimits, TheNetworkHasWhatMapsDoNotTakeYet) {
  constexpr int64_t kFrames = 100'000'000, kMaps = 300'000'000, kAll = 700'000'000;
  MemoryLimits limits = choose_limits(with_host_memory("2GB"), at::kCPU), alike = limits;
  const int64_t shared = limits.shared();
  limits.hold_in_memory({kAll, kFrames, kFrames + kMaps});
  alike.hold_in_memory(kAll);
  EXPECT_EQ(limits.network.host + limits.network.more_in_trunk, shared - kFrames);
  EXPECT_EQ(limits.network.host + limits.network.more_in_heads, shared - kFrames - kMaps);
  EXPECT_EQ(limits.network.host, shared - kAll);
  EXPECT_EQ(limits.images, alike.images);  // written when all is there
  EXPECT_EQ(alike.network.more_in_trunk, 0);
  EXPECT_EQ(alike.network.more_in_heads, 0);
}

TEST(MemoryLimits, TheLeastIsEnoughForImagesToo) {
  Options options = with_host_memory("700MB");
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.out = "x/";
  const RunPlan plan = plan_run(options);
  MemoryRequest request = plan.memory;
  request.frames = 12;
  request.height = request.width = 336;
  MemoryLimits limits = plan.limits;
  const auto least = [&] { return std::stoll(least_host_memory(limits, request, true).value()); };
  const int64_t of_network = least();
  limits.least = of_network + 500;
  EXPECT_EQ(least(), of_network + 500);
  limits.least = 1;
  EXPECT_EQ(least(), of_network);
}

TEST(MemoryLimits, TheLeastIsThatOfExactAttentionWhereItTakesHardlyMore) {
  Options options = with_host_memory("650MB");
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.out = "x/";
  const RunPlan plan = plan_run(options);
  for (const auto& [frames, width, is_exact] : std::initializer_list<std::tuple<int, int, bool>>{
           {50, 336, true}, {100, 336, true}, {400, 336, false}}) {
    MemoryRequest request = plan.memory;
    request.screened_matches = false;  // the same on every machine
    request.merge = MergeOptions();
    request.frames = frames;
    request.height = request.width = width;
    MemoryRequest exact = request;
    exact.merge.reset();
    const auto of_merged = least_host_memory(plan.limits, request, false),
               of_exact = least_host_memory(plan.limits, exact, false);
    ASSERT_NE(of_merged, of_exact);
    EXPECT_EQ(least_host_memory(plan.limits, request, true), is_exact ? of_exact : of_merged) << frames;
  }
}

TEST(MemoryLimits, ACpuHasNoGpuMemory) {
  Options options;
  options.gpu_memory = "6GB";
  EXPECT_NE(refusal_of(options).find("gpu-memory"), std::string::npos) << refusal_of(options);
  options.gpu_memory = "six";
  EXPECT_NE(refusal_of(options).find("gpu-memory: 'six'"), std::string::npos) << refusal_of(options);
}

TEST(MemoryLimits, APlanHasThem) {
  Options options = with_host_memory("2GB");
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
  options.device = "cpu";
  const RunPlan plan = plan_measurement(options);
  EXPECT_EQ(plan.memory.budget.host, plan.limits.network.host);
  EXPECT_LT(plan.memory.budget.host, 2'000'000'000);
}

TEST(MemoryLimits, APictureIsDrawnOfWhatFits) {
  for (const char* limit : {"750MB", "850MB"}) {
    Options options = with_host_memory(limit);
    options.frames = VGGT_SOURCE_DIR "/examples/room";
    options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
    options.device = "cpu";
    options.out = "/tmp/scene.ply";
    EXPECT_EQ(drawn_points(plan_run(options), 5'000'000, 0), 0);
    options.picture = "/tmp/scene.png";
    const RunPlan plan = plan_run(options);
    EXPECT_EQ(drawn_points(plan, 5'000, 0), 5'000);
    EXPECT_EQ(drawn_points(plan, 50'000'000, 0), 2'000'000);
    const int64_t held = room_beside(plan, 0) - plan.limits.images,  // which are gone by then
        fitting = (plan.limits.images - picture_bytes(plan)) / 40;
    ASSERT_LT(fitting, 2'000'000);
    EXPECT_EQ(drawn_points(plan, 5'000'000, held), std::max<int64_t>(fitting, 100'000)) << limit;
  }
}

}  // namespace
}  // namespace vggt
