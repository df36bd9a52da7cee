// Normals of points from their neighbours in the image, in the clouds that are written too.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "app/scene/scene_cloud.h"
#include "app/scene/surface_normal.h"

namespace vggt {
namespace {

const Eigen::Vector3f kNone = Eigen::Vector3f::Constant(std::numeric_limits<float>::quiet_NaN());

TEST(SurfaceNormal, OfAPlaneFromEitherSide) {
  const PointCross floor{{0, 1, 5}, {-1, 1, 5}, {1, 1, 5}, {0, 1, 6}, {0, 1, 4}};
  EXPECT_TRUE(surface_normal(floor, {0, 0, 0}).isApprox(Eigen::Vector3f(0, -1, 0)));
  EXPECT_TRUE(surface_normal(floor, {0, 9, 0}).isApprox(Eigen::Vector3f(0, 1, 0)));
}

TEST(SurfaceNormal, OneNeighbourOnEachAxisIsEnough) {
  const PointCross corner{{0, 0, 5}, kNone, {1, 0, 6}, {0, -1, 5}, kNone};
  EXPECT_TRUE(surface_normal(corner, {0, 0, 0}).isApprox(Eigen::Vector3f(1, 0, -1).normalized()));
  const PointCross alone{{0, 0, 5}, kNone, kNone, kNone, kNone};
  EXPECT_TRUE(surface_normal(alone, {0, 0, 0}).isApprox(Eigen::Vector3f(0, 0, -1)));
  const PointCross degenerate{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  EXPECT_NEAR(surface_normal(degenerate, {1, 1, 1}).norm(), 1, 1e-6);
}

TEST(SurfaceNormal, IsNotSmearedOverAnEdge) {
  const PointCross edge{{0, 0, 5}, {-1, 0, 5}, {1, 0, 50}, {0, -1, 5}, {0, 1, 5}};
  EXPECT_TRUE(surface_normal(edge, {0, 0, 0}).isApprox(Eigen::Vector3f(0, 0, -1)));
}

/// A wall at depth 4, seen straight and from the side.
TEST(SurfaceNormal, CloudsHaveThoseOfTheirFrames) {
  constexpr int kSize = 28;
  SceneOptions options;
  options.conf_percentile = 0;
  options.normals = true;
  std::vector<Camera> cameras(2);
  for (Camera& camera : cameras) {
    camera.width = camera.height = kSize;
    camera.k << 30, 0, 13.5, 0, 30, 13.5, 0, 0, 1;
  }
  cameras[1].cam_from_world.linear() = Eigen::AngleAxisd(.5, Eigen::Vector3d::UnitY()).toRotationMatrix();
  const ReadRgb gray = [](std::size_t, std::span<uint8_t> rgb) { std::ranges::fill(rgb, uint8_t{99}); };
  SceneBuilder builder(options, kSize, kSize, std::vector<FrameView>(2, {0, kSize, 0, kSize}), gray);
  builder.set_cameras(cameras);
  std::vector<float> depth, confidence(2 * kSize * kSize, 1);
  for (const Camera& camera : cameras) {
    for (int i = 0; i < kSize * kSize; ++i) {
      const Eigen::Vector3d ray =
          camera.cam_from_world.linear().transpose() * camera.ray({i % kSize, i / kSize});
      depth.push_back(static_cast<float>(4 / ray.z()));
    }
  }
  builder.add({0, 2, depth.data(), nullptr, confidence.data()});
  BuiltScene scene = builder.finish();
  for (const double voxel : {0., .05}) {
    CloudFilters filters;
    filters.voxel = voxel;
    BuiltScene built = scene;
    const SceneCloud cloud(builder, filters, true, built);
    const PointCloud& points = cloud.in_memory();
    ASSERT_EQ(points.normals.size(), points.points.size());
    ASSERT_GT(points.normals.size(), 100U);
    for (const Eigen::Vector3f& normal : points.normals)
      ASSERT_TRUE(normal.isApprox(Eigen::Vector3f(0, 0, -1), 1e-3F)) << normal.transpose();
  }
}

}  // namespace
}  // namespace vggt
