// Points that stream into the file are those that memory would hold, whatever lies on disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>

#include "app/scene/scene_cloud.h"
#include "io/scene/ply.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr int kFrames = 7, kHeight = 30, kWidth = 40;
constexpr std::size_t kPixels = std::size_t{kHeight} * kWidth;

class SceneCloudTest : public ::testing::Test {
 protected:
  SceneCloudTest() {
    std::string name = (fs::temp_directory_path() / "vggt_cloud_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    std::mt19937 random(3);
    std::uniform_real_distribution<float> unit(0, 1);
    for (std::size_t i = 0; i < kFrames * kPixels; ++i) {
      depth_.push_back(1 + unit(random));
      confidence_.push_back(1 + 4 * unit(random));
    }
    for (int i = 0; i < kFrames; ++i) {
      Camera camera;
      camera.valid = i != 2;
      camera.k << 30, 0, 20, 0, 30, 15, 0, 0, 1;
      camera.cam_from_world.translation() = Eigen::Vector3d(0.1 * i, 0, 0.2);
      cameras_.push_back(camera);
    }
  }
  ~SceneCloudTest() override { fs::remove_all(dir_); }

  std::unique_ptr<SceneBuilder> started(const HostStorage& storage, int threads) const {
    const ReadRgb read_rgb = [](std::size_t frame, std::span<uint8_t> rgb) {
      for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(31 * frame + i);
    };
    auto builder = std::make_unique<SceneBuilder>(
        SceneOptions(), kWidth, kHeight, std::vector<FrameView>(kFrames, {0, kWidth, 0, kHeight}), read_rgb,
        std::make_shared<HostSpace>(storage), FrameWork{threads, check_stop_});
    builder->set_cameras(cameras_);
    for (int i = 0; i < kFrames; ++i)
      builder->add({i, 1, &depth_[kPixels * static_cast<std::size_t>(i)], nullptr,
                    &confidence_[kPixels * static_cast<std::size_t>(i)]});
    return builder;
  }
  std::string bytes(const char* name) const {
    std::ifstream file(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }

  fs::path dir_;
  std::vector<float> depth_, confidence_;
  std::vector<Camera> cameras_;
  std::function<void()> check_stop_;
};

TEST_F(SceneCloudTest, StreamedIsWhatMemoryHoldsOnDiskOrNot) {
  const auto whole = started({}, 1);
  BuiltScene expected = whole->finish();
  write_ply(dir_ / "whole.ply", SceneCloud(*whole, {}, true, expected).in_memory());
  EXPECT_GT(expected.points, 1000);
  for (const int64_t budget : {int64_t{0}, int64_t{20000}, int64_t{1} << 40}) {
    for (const int threads : {1, 3}) {
      const auto builder = started({budget, dir_}, threads);
      EXPECT_EQ(entries(), budget < 1 << 30 ? 2U : 1U);
      BuiltScene scene = builder->finish();
      EXPECT_EQ(scene.conf_threshold, expected.conf_threshold);
      EXPECT_EQ(scene.median_depth, expected.median_depth);
      EXPECT_EQ(scene.mean_confidence, expected.mean_confidence);
      const SceneCloud cloud(*builder, {}, false, scene);
      cloud.write(dir_ / "streamed.ply");
      EXPECT_EQ(bytes("streamed.ply"), bytes("whole.ply")) << budget << " " << threads;
      fs::remove(dir_ / "streamed.ply");
    }
    EXPECT_EQ(entries(), 1U) << "the scratch folder is gone";
  }
}

TEST_F(SceneCloudTest, ChosenPointsStreamToo) {
  const auto builder = started({}, 2);
  BuiltScene scene = builder->finish(), again = scene;
  const PointCloud all = SceneCloud(*builder, {}, true, again).in_memory();
  CloudFilters filters;
  filters.max_points = 500;
  filters.seed = 9;
  const SceneCloud cloud(*builder, filters, false, scene);
  EXPECT_EQ(cloud.size(), 500);
  cloud.write(dir_ / "streamed.ply");
  write_ply(dir_ / "chosen.ply", choose_points(all, 500, 9));
  EXPECT_EQ(bytes("streamed.ply"), bytes("chosen.ply"));
  EXPECT_EQ(scene.filters.back().name, "max points");
  EXPECT_EQ(scene.filters.back().before, static_cast<int64_t>(all.points.size()));
  EXPECT_EQ(scene.filters.back().after, 500);
}

// As after an adjustment.
TEST_F(SceneCloudTest, DepthAndCamerasMayChangeBeforeTheEnd) {
  const auto changed = started({0, dir_}, 2);
  const std::vector<float> near(kPixels, 0.5F);
  changed->maps().put_values(3, near);
  cameras_[2].valid = true;
  cameras_[5].valid = false;
  changed->set_cameras(cameras_);
  std::ranges::copy(near, depth_.begin() + 3 * kPixels);
  const auto fresh = started({}, 1);
  BuiltScene a = changed->finish(), b = fresh->finish();
  EXPECT_EQ(a.conf_threshold, b.conf_threshold);
  EXPECT_EQ(a.median_depth, b.median_depth);
  EXPECT_EQ(SceneCloud(*changed, {}, true, a).in_memory().points,
            SceneCloud(*fresh, {}, true, b).in_memory().points);
}

TEST_F(SceneCloudTest, StoppingLeavesNoFile) {
  struct Stop {};
  bool stop = false;
  check_stop_ = [&] {
    if (stop) throw Stop();
  };
  const auto builder = started({}, 2);
  BuiltScene scene = builder->finish();
  const SceneCloud cloud(*builder, {}, false, scene);
  stop = true;
  EXPECT_THROW(cloud.write(dir_ / "a.ply"), Stop);
  EXPECT_EQ(entries(), 0U);
  EXPECT_THROW(started({}, 2)->finish(), Stop);
}

}  // namespace
}  // namespace vggt
