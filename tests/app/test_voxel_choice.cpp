// A cloud that is too large is thinned evenly: one point to a cube, the most confident one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "app/scene/scene_cloud.h"
#include "io/scene/ply.h"

namespace vggt {
namespace {

constexpr int kFrames = 9, kHeight = 60, kWidth = 80;
constexpr std::size_t kPixels = std::size_t{kHeight} * kWidth;

/// A wall that is oblique to all axes, seen by cameras beside each other; the confidence is random.
class Wall {
 public:
  Wall() {
    std::mt19937 random(4);
    std::uniform_real_distribution<float> unit(0, 1);
    for (std::size_t i = 0; i < kFrames * kPixels; ++i) {
      depth_.push_back(2 + 0.01F * unit(random));
      confidence_.push_back(1 + unit(random));
    }
    for (int i = 0; i < kFrames; ++i) {
      Camera& camera = cameras_.emplace_back();
      camera.width = kWidth;
      camera.height = kHeight;
      camera.k << 70, 0, 40, 0, 70, 30, 0, 0, 1;
      camera.cam_from_world.linear() =
          Eigen::AngleAxisd(0.7, Eigen::Vector3d(1, 2, 0.5).normalized()).toRotationMatrix();
      camera.cam_from_world.translation() = Eigen::Vector3d(-0.1 * i, 0, 0);
    }
  }
  std::unique_ptr<SceneBuilder> started(int threads) const {
    SceneOptions options;
    options.conf_percentile = 10;
    const ReadRgb read_rgb = [](std::size_t frame, std::span<uint8_t> rgb) {
      for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(31 * frame + i);
    };
    auto builder = std::make_unique<SceneBuilder>(
        options, kWidth, kHeight, std::vector<FrameView>(kFrames, {0, kWidth, 0, kHeight}), read_rgb,
        std::make_shared<HostSpace>(), FrameWork{threads, {}});
    builder->set_cameras(cameras_);
    builder->add({0, kFrames, depth_.data(), nullptr, confidence_.data()});
    return builder;
  }

 private:
  std::vector<float> depth_, confidence_;
  std::vector<Camera> cameras_;
};

using Cube = std::tuple<int, int, int>;
Cube cube_of(const Eigen::Vector3f& point, double side) {
  const auto place = [&](int i) { return static_cast<int>(std::floor(double{point[i]} / side)); };
  return {place(0), place(1), place(2)};
}

TEST(VoxelChoice, KeepsTheMostConfidentPointOfEachCube) {
  const Wall wall;
  const auto builder = wall.started(2);
  const BuiltScene scene = builder->finish();
  ASSERT_GT(scene.points, 30000);
  const auto count = static_cast<std::size_t>(scene.points);
  std::vector<Eigen::Vector3f> points(count);
  std::vector<float> confidence(count);
  builder->for_each_frame_positions([&](int frame, std::span<const Eigen::Vector3f> own,
                                        std::span<const float> own_confidence) {
    const auto first = static_cast<std::ptrdiff_t>(builder->first_points()[static_cast<std::size_t>(frame)]);
    std::ranges::copy(own, points.begin() + first);
    std::ranges::copy(own_confidence, confidence.begin() + first);
  });
  for (const int64_t most : {300, 1000, 5000}) {
    const VoxelChoice choice(*builder, scene, most);
    std::map<Cube, float> best;
    for (std::size_t i = 0; i < count; ++i) {
      float& value = best[cube_of(points[i], choice.side())];
      value = std::max(value, confidence[i]);
    }
    // The cubes are about as small as the limit allows.
    EXPECT_LE(static_cast<int64_t>(best.size()), most);
    EXPECT_GT(static_cast<double>(best.size()), 0.85 * static_cast<double>(most));
    std::map<Cube, int> kept;
    for (std::size_t i = 0; i < count; ++i) {
      if (!choice(static_cast<int64_t>(i))) continue;
      const Cube cube = cube_of(points[i], choice.side());
      ++kept[cube];
      EXPECT_GE(confidence[i], best[cube] * (1 - 1e-4F));  // the table keeps 24 bits of a confidence
    }
    EXPECT_EQ(kept.size(), best.size());
    for (const auto& [cube, number] : kept) EXPECT_EQ(number, 1);
  }
}

TEST(VoxelChoice, StreamsTheSamePointsWhateverTheThreads) {
  const Wall wall;
  CloudFilters filters;
  filters.thin_to = 3000;
  const auto one = wall.started(1), three = wall.started(3);
  BuiltScene a = one->finish(), b = three->finish();
  const SceneCloud held(*one, filters, true, a), streamed(*three, filters, false, b);
  EXPECT_EQ(held.size(), streamed.size());
  ASSERT_TRUE(streamed.thinned_by());
  EXPECT_EQ(*held.thinned_by(), *streamed.thinned_by());
  EXPECT_LE(held.size(), 3000);
  EXPECT_EQ(b.filters.back().name, "thinned");
  EXPECT_EQ(b.filters.back().before, b.points);
  EXPECT_EQ(b.filters.back().after, streamed.size());
  const auto folder = std::filesystem::temp_directory_path() / "vggt_voxel_choice.ply";
  streamed.write(folder);
  const std::vector<Eigen::Vector3d> read = read_ply_points(folder);
  std::filesystem::remove(folder);
  ASSERT_EQ(read.size(), held.in_memory().points.size());
  for (std::size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(read[i].cast<float>(), held.in_memory().points[i]) << i;
}

TEST(VoxelChoice, ASmallCloudStaysWhole) {
  const Wall wall;
  CloudFilters filters;
  filters.thin_to = 1'000'000;
  const auto builder = wall.started(2);
  BuiltScene scene = builder->finish();
  const SceneCloud cloud(*builder, filters, false, scene);
  EXPECT_EQ(cloud.size(), scene.points);
  EXPECT_FALSE(cloud.thinned_by());
  EXPECT_NE(scene.filters.back().name, "thinned");
}

TEST(VoxelChoice, OutliersComeAfterIt) {
  const Wall wall;
  CloudFilters filters;
  filters.thin_to = 2000;
  filters.outliers = OutlierFilter{};
  const auto builder = wall.started(2);
  BuiltScene scene = builder->finish();
  const SceneCloud cloud(*builder, filters, false, scene);
  ASSERT_GE(scene.filters.size(), 2U);
  EXPECT_EQ(scene.filters.back().name, "outliers");
  EXPECT_LE(scene.filters.back().before, 2000);
  EXPECT_EQ(cloud.size(), scene.filters.back().after);
}

}  // namespace
}  // namespace vggt
