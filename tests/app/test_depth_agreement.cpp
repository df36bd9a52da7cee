// Points stay where other frames agree about their depth; which frames are asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "app/scene/depth_agreement.h"
#include "app/scene/scene_cloud.h"

namespace vggt {
namespace {

constexpr int kWidth = 60, kHeight = 40;
constexpr std::size_t kPixels = std::size_t{kWidth} * kHeight;
constexpr double kFar = 5;

/// Looks along z from (x, 0, 0).
Camera camera_at(double x) {
  Camera camera;
  camera.width = kWidth;
  camera.height = kHeight;
  camera.k << 50, 0, 29.5, 0, 50, 19.5, 0, 0, 1;
  camera.cam_from_world.translation() = Eigen::Vector3d(-x, 0, 0);
  return camera;
}

/// Frames that all see a wall at z = kFar, with a depth map each.
struct Wall {
  std::vector<Camera> cameras;
  std::vector<std::vector<float>> depth;

  explicit Wall(const std::vector<double>& places) {
    for (const double x : places) {
      cameras.push_back(camera_at(x));
      depth.emplace_back(kPixels, static_cast<float>(kFar));
    }
  }
  ReadDepth reader() const {
    return [this](int frame, std::span<float> to) {
      std::ranges::copy(depth[static_cast<std::size_t>(frame)], to.begin());
    };
  }
  /// The points of a scene whose frames must be confirmed by so many others.
  BuiltScene built(int consistent, PointCloud& cloud, const ReadMask& masks = {}) const {
    SceneOptions options;
    options.conf_percentile = 0;
    options.consistent = consistent;
    SceneBuilder builder(
        options, kWidth, kHeight, std::vector<FrameView>(cameras.size(), {0, kWidth, 0, kHeight}),
        [](std::size_t, std::span<uint8_t> rgb) { std::ranges::fill(rgb, uint8_t{9}); },
        std::make_shared<HostSpace>(), FrameWork{2, {}});
    builder.set_cameras(cameras);
    builder.set_masks(masks);
    const std::vector<float> confidence(kPixels, 2);
    for (std::size_t i = 0; i < depth.size(); ++i)
      builder.add({static_cast<int>(i), 1, depth[i].data(), nullptr, confidence.data()});
    BuiltScene scene = builder.finish();
    cloud = SceneCloud(builder, {}, true, scene).in_memory();
    return scene;
  }
};

/// The point that a pixel shows at a depth.
Eigen::Vector3f point_at(const Camera& camera, int x, int y, double depth) {
  return (camera.cam_from_world.inverse() * Eigen::Vector3d(depth * camera.ray({x, y}))).cast<float>();
}

TEST(DepthAgreement, CountsFramesWithinTheTolerance) {
  const Wall wall({0, 0.3, 0.6, 0.9});
  const ReadDepth read = wall.reader();
  const DepthAgreement agreement(wall.cameras, kWidth, kHeight, read, 10, {});
  std::vector<Eigen::Vector3f> points;
  const std::vector<double> factors = {1,
                                       1 + 0.9 * kDepthTolerance,
                                       1 - 0.9 * kDepthTolerance,
                                       1 + 1.1 * kDepthTolerance,
                                       1 - 1.1 * kDepthTolerance,
                                       0.5,
                                       2};
  for (const double factor : factors) points.push_back(point_at(wall.cameras[0], 40, 20, factor * kFar));
  points.push_back(point_at(wall.cameras[0], 40, 20, -kFar));  // behind all
  points.push_back(point_at(wall.cameras[0], 0, 0, kFar));     // out of the others' sight
  std::vector<float> buffer;
  const std::vector<uint8_t> counts = agreement.agreeing(0, points, buffer);
  EXPECT_EQ(counts, (std::vector<uint8_t>{3, 3, 3, 0, 0, 0, 0, 0, 0}));
}

TEST(DepthAgreement, AsksFramesFromOtherPlaces) {
  // Frames 1 to 4 stand where frame 0 stands; 5 and 6 see the same from elsewhere; 7 looks away; 8 has no
  // camera.
  Wall wall({0, 0, 0, 0, 0, 0.5, -0.5, 0.2, 0.1});
  wall.cameras[7].cam_from_world = Eigen::Isometry3d(Eigen::AngleAxisd(M_PI, Eigen::Vector3d::UnitY()));
  wall.cameras[8].valid = false;
  const ReadDepth read = wall.reader();
  const DepthAgreement agreement(wall.cameras, kWidth, kHeight, read, 2, {});
  std::vector<int> partners = agreement.partners(0);
  std::ranges::sort(partners);
  EXPECT_EQ(partners, (std::vector<int>{5, 6}));
  EXPECT_TRUE(agreement.partners(7).empty());
  EXPECT_TRUE(agreement.partners(8).empty());
  const DepthAgreement all(wall.cameras, kWidth, kHeight, read, 100, {});
  EXPECT_EQ(all.partners(0).size(), 6U);
}

TEST(DepthAgreement, FramesBehindAWallAreNotAsked) {
  Wall wall({0, 0.5, 0.5});
  for (float& depth : wall.depth[2]) depth = 1;  // something stands in front of it
  const ReadDepth read = wall.reader();
  EXPECT_EQ(DepthAgreement(wall.cameras, kWidth, kHeight, read, 9, {}).partners(0), std::vector<int>{1});
}

TEST(ConsistentPoints, FloatersGoAndTheWallStays) {
  Wall wall({0, 0.2, 0.4, 0.6, 0.8});
  std::size_t floaters = 0;
  for (int y = 10; y < 20; ++y) {
    for (int x = 25; x < 35; ++x, ++floaters)
      wall.depth[2][static_cast<std::size_t>(y * kWidth + x)] = static_cast<float>(0.5 * kFar);
  }
  PointCloud all, kept;
  wall.built(0, all);
  const BuiltScene scene = wall.built(2, kept);
  const auto is_floater = [](const Eigen::Vector3f& point) { return point.z() < 0.9 * kFar; };
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(all.points, is_floater)), floaters);
  EXPECT_EQ(std::ranges::count_if(kept.points, is_floater), 0);
  EXPECT_EQ(scene.filters.back().name, "consistency");
  EXPECT_EQ(scene.filters.back().before, static_cast<int64_t>(all.points.size()));
  EXPECT_EQ(scene.filters.back().after, static_cast<int64_t>(kept.points.size()));
  // Every point of the wall that two other frames see stays. At this depth a frame sees 6 wide.
  const auto seen_by = [&](const Eigen::Vector3f& point) {
    int frames = 0;
    for (std::size_t i = 0; i < wall.cameras.size(); ++i) {
      const Eigen::Vector2d pixel =
          wall.cameras[i].project(wall.cameras[i].cam_from_world * point.cast<double>());
      frames += pixel.x() >= 0 && pixel.x() <= kWidth - 1 && pixel.y() >= 0 && pixel.y() <= kHeight - 1;
    }
    return frames;
  };
  // Four pixels at the border of the floaters' shadow may be read off them; nothing else may be missing.
  const auto on_wall = std::ranges::count_if(
      all.points, [&](const auto& point) { return !is_floater(point) && seen_by(point) >= 4; });
  EXPECT_GE(static_cast<int64_t>(kept.points.size()), on_wall);
  EXPECT_GT(on_wall, 8000);
}

TEST(ConsistentPoints, MaskedPixelsConfirmNothing) {
  const Wall wall({0, 0.2, 0.4});
  const ReadMask masks = [](std::size_t frame, std::span<uint8_t> used) {
    std::ranges::fill(used, frame == 0 ? uint8_t{1} : uint8_t{0});
  };
  PointCloud cloud;
  const BuiltScene scene = wall.built(1, cloud, masks);
  EXPECT_TRUE(cloud.points.empty());
  EXPECT_EQ(scene.filters.back().before, static_cast<int64_t>(kPixels));
}

TEST(MaskedPixels, GiveNoPointsAndCountInNoPercentile) {
  Wall wall({0, 0.2});
  const ReadMask masks = [](std::size_t, std::span<uint8_t> used) {
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = i % 4 == 0 ? 0 : 1;
  };
  PointCloud cloud;
  const BuiltScene scene = wall.built(0, cloud, masks);
  EXPECT_EQ(cloud.points.size(), 2 * kPixels * 3 / 4);
  const auto mask = std::ranges::find(scene.filters, "masks", &FilterCount::name);
  ASSERT_NE(mask, scene.filters.end());
  EXPECT_EQ(mask->before - mask->after, static_cast<int64_t>(2 * kPixels / 4));
  // Masked pixels are sure, the others are not: the median is of the others.
  SceneBuilder builder({}, kWidth, kHeight, {{0, kWidth, 0, kHeight}}, {});
  builder.set_cameras({wall.cameras[0]});
  builder.set_masks(masks);
  std::vector<float> confidence(kPixels);
  for (std::size_t i = 0; i < kPixels; ++i) confidence[i] = i % 4 == 0 ? 100.F : static_cast<float>(i % 4);
  builder.add({0, 1, wall.depth[0].data(), nullptr, confidence.data()});
  const BuiltScene median = builder.finish();
  EXPECT_EQ(median.conf_threshold, 2);
  EXPECT_EQ(median.mean_confidence[0], 2);
}

}  // namespace
}  // namespace vggt
