// What the scenes of a batch share: memory among jobs, the plan of a device; and what goes of an earlier
// run's files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/batch/batch_plan.h"
#include "app/batch/job_memory.h"
#include "app/batch/scene_options.h"
#include "app/batch/scene_outputs.h"
#include "app/run/loaded_model.h"
#include "app/run/process_memory.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class BatchPlans : public ::testing::Test {
 protected:
  BatchPlans() {
    std::string name = (fs::temp_directory_path() / "vggt_batch_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~BatchPlans() override { fs::remove_all(dir_); }

  void touch(const std::string& name) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << "x";
  }
  BatchRequest request() const {
    BatchRequest request;
    request.options.out = (dir_ / "results").string();
    request.options.device = "cpu";
    request.options.weights = VGGT_FIXTURES "/golden/nano/weights.ts";
    request.scenes = (dir_ / "scenes").string();
    return request;
  }

  fs::path dir_;
};

TEST(JobMemory, WeightsAreThereOnceAndOneMoreSceneIsRead) {
  MemoryLimits limits;
  limits.network.device = 10'000;
  limits.network.host = 6'000;
  limits.storage.bytes = 2'400;
  limits.images = 5'900;  // beside weights of 100
  divide_memory(limits, 4'000, 3, 2);
  EXPECT_EQ(limits.network.device, 6'000);  // the weights, and a third of the rest
  EXPECT_EQ(limits.network.host, 750);
  EXPECT_EQ(limits.images, 650);
  EXPECT_EQ(limits.storage.bytes, 300);
}

TEST(JobMemory, WhatIsNotLimitedStaysSo) {
  MemoryLimits limits;
  divide_memory(limits, 0, 8, 1);
  EXPECT_EQ(limits.network.device, MemoryBudget::kUnlimited);
  EXPECT_EQ(limits.network.host, MemoryBudget::kUnlimited);
  EXPECT_EQ(limits.storage.bytes, HostStorage().bytes);
  EXPECT_EQ(limits.images, MemoryBudget::kUnlimited);
}

TEST_F(BatchPlans, ScenesTakeTheDevicesPartOfMemory) {
  touch("scenes/a/1.png");
  touch("scenes/b/1.png");
  BatchRequest request = this->request();
  request.options.host_memory = "4GB";
  request.jobs = 2;
  request.shard = Shard{1, 2};
  const BatchPlan plan = plan_batch(request);
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(plan.scenes.size(), 2u);
  EXPECT_EQ(plan.share, std::vector<std::size_t>{1});
  EXPECT_FALSE(fs::exists(plan.results));

  request.jobs = 1;
  const BatchPlan whole = plan_batch(request);
  // Beside the jobs one scene is read.
  EXPECT_EQ(plan.devices[0].limits.network.host, whole.devices[0].limits.network.host * 2 / 3);
  EXPECT_EQ(plan.devices[0].limits.images,
            plan.devices[0].limits.network.host - weight_bytes(plan.devices[0].memory));
  // Three scenes at once, each beside the program and its weights, are within the limit; one has more room.
  const int64_t held = 490'000'000 + weight_bytes(plan.devices[0].memory),
                room = room_beside(plan.devices[0], held);
  EXPECT_GT(room, plan.devices[0].limits.images);
  EXPECT_LE(held + 3 * room, 4'000'000'000 * 9 / 10 + 3);
  EXPECT_GT(room_beside(whole.devices[0], held), room);
  EXPECT_EQ(room_beside(plan.devices[0], held + room),
            plan.devices[0].limits.images);  // others hold the rest
  const LoadedModel model(plan.devices[0].model);
  const RunPlan scene = plan_scene(scene_options(plan.options, plan.scenes[1]), plan.devices[0], model);
  EXPECT_EQ(scene.limits.network.host, plan.devices[0].limits.network.host);
  EXPECT_EQ(scene.memory.budget.host, plan.devices[0].limits.network.host);
  EXPECT_TRUE(model.serves(scene.model));
  EXPECT_EQ(describe(plan), std::vector<std::string>{"b: to do (new)"});
}

TEST_F(BatchPlans, DevicesAreThoseOfARun) {
  touch("scenes/a/1.png");
  BatchRequest request = this->request();
  for (const char* device : {"", "cpu,auto", "cpu,cpu", "gpu", "cuda:999", "cuda:998,999", "all,cpu", ","}) {
    request.options.device = device;
    EXPECT_NE(refusal([&] { plan_batch(request); }).find("device"), std::string::npos) << device;
  }
}

TEST_F(BatchPlans, OfAnEarlierRunOnlyItsOwnFilesGo) {
  touch("s/old.txt");
  touch("s/scene.ply");
  touch("s/mine.txt");
  touch("precious.txt");
  fs::create_directories(dir_ / "s/maps");
  touch("s/maps/by_hand.png");
  fs::create_directories(dir_ / "s/empty");
  remove_outdated(dir_ / "s",
                  {{"old.txt", 1},
                   {"scene.ply", 1},
                   {"maps", -1},
                   {"empty", -1},
                   {"../precious.txt", 1},
                   {(dir_ / "precious.txt").string(), 1},
                   {"", -1},
                   {"..", -1}},
                  {{"scene.ply", 1}});
  EXPECT_FALSE(fs::exists(dir_ / "s/old.txt"));
  EXPECT_FALSE(fs::exists(dir_ / "s/empty"));
  for (const char* kept : {"s/scene.ply", "s/mine.txt", "s/maps/by_hand.png", "precious.txt"})
    EXPECT_TRUE(fs::exists(dir_ / kept)) << kept;
}

}  // namespace
}  // namespace vggt
