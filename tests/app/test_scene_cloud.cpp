// Points that stream into the file are those that memory would hold, whatever lies on disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>

#include "app/scene/scene_cloud.h"
#include "io/scene/ply.h"
#include "tests/support/failing_new.h"

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

/// Two frames of many points; most fail to be held while `large` allocations do.
class CloudWithinMemory : public ::testing::Test {
 protected:
  static constexpr int kWide = 640, kHigh = 480;
  static constexpr std::size_t kLarge = 4'000'000;  // bytes: some of 600,000 points, none of 150,000

  CloudWithinMemory() {
    const std::vector<float> depth(std::size_t{kWide} * kHigh, 2), confidence(depth.size(), 3);
    std::vector<Camera> cameras(2);
    for (Camera& camera : cameras) camera.k << 500, 0, kWide / 2.0, 0, 500, kHigh / 2.0, 0, 0, 1;
    cameras[1].cam_from_world.translation().x() = 3;
    builder_.set_cameras(cameras);
    for (int i = 0; i < 2; ++i) builder_.add({i, 1, depth.data(), nullptr, confidence.data()});
    scene_ = builder_.finish();
  }

  SceneBuilder builder_{SceneOptions(),
                        kWide,
                        kHigh,
                        std::vector<FrameView>(2, {0, kWide, 0, kHigh}),
                        [](std::size_t, std::span<uint8_t> rgb) { std::ranges::fill(rgb, uint8_t{9}); },
                        std::make_shared<HostSpace>()};
  BuiltScene scene_;
  std::vector<std::pair<int64_t, int64_t>> thinned_;

  SceneCloud cloud(CloudFilters& filters, bool in_memory, int64_t faults) {
    const test::Faults failing(0, faults, kLarge);
    return cloud_within_memory(builder_, filters, in_memory, scene_,
                               [this](int64_t from, int64_t to) { thinned_.emplace_back(from, to); });
  }
};

TEST_F(CloudWithinMemory, IsThinnedUntilItFits) {
  const int64_t all = scene_.points;
  ASSERT_GT(all, 500'000);
  const std::size_t filters_before = scene_.filters.size();
  CloudFilters filters;
  const SceneCloud thin = cloud(filters, /*in_memory=*/true, 1'000'000);
  ASSERT_EQ(thinned_.size(), 1U);
  EXPECT_EQ(thinned_[0], std::pair(all, all / 4));
  EXPECT_EQ(filters.thin_to, all / 4);
  EXPECT_LE(thin.size(), all / 4);
  EXPECT_GT(thin.size(), all / 16);
  EXPECT_TRUE(thin.thinned_by());
  ASSERT_EQ(scene_.filters.size(), filters_before + 1);  // what was tried first left nothing
  EXPECT_EQ(scene_.filters.back().before, all);
  EXPECT_EQ(scene_.filters.back().after, thin.size());
}

TEST_F(CloudWithinMemory, IsWholeWhereItFits) {
  CloudFilters filters;
  EXPECT_EQ(cloud(filters, /*in_memory=*/true, 0).size(), scene_.points);
  EXPECT_EQ(cloud(filters, /*in_memory=*/false, 1'000'000).size(), scene_.points);  // holds none at once
  EXPECT_TRUE(thinned_.empty());
  EXPECT_EQ(filters.thin_to, 0);
}

TEST_F(CloudWithinMemory, FewPointsThatDoNotFitAreALackOfMemory) {
  CloudFilters filters;
  filters.max_points = 99'999;
  const test::Faults failing(0, 1'000'000, 50'000);
  EXPECT_THROW(cloud_within_memory(builder_, filters, true, scene_, [](int64_t, int64_t) { FAIL(); }),
               std::bad_alloc);
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
