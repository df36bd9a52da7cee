// What thins the cloud out: voxels, outliers, and a choice by seed.
#include <gtest/gtest.h>

#include <algorithm>

#include "app/scene/scene_filters.h"

namespace vggt {
namespace {

int64_t left_by(const BuiltScene& scene, const std::string& filter) {
  const auto found = std::ranges::find(scene.filters, filter, &FilterCount::name);
  return found == scene.filters.end() ? -1 : found->after;
}

PointCloud line_of(int count) {
  PointCloud cloud;
  for (int i = 0; i < count; ++i) {
    cloud.points.emplace_back(static_cast<float>(i), 0, 0);
    cloud.colors.emplace_back(static_cast<uint8_t>(i), 0, 0);
  }
  return cloud;
}

TEST(ChoosePoints, IsSeededAndKeepsOrder) {
  const PointCloud cloud = line_of(10000);
  const PointCloud a = choose_points(cloud, 1000, 1), again = choose_points(cloud, 1000, 1);
  const PointCloud b = choose_points(cloud, 1000, 2);
  ASSERT_EQ(a.points.size(), 1000u);
  EXPECT_EQ(a.points, again.points);
  EXPECT_NE(a.points, b.points);
  double sum = 0;
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(a.points[i - 1].x(), a.points[i].x());
    }
    EXPECT_EQ(a.colors[i][0], static_cast<uint8_t>(a.points[i].x()));
    sum += a.points[i].x();
  }
  EXPECT_NEAR(sum / 1000, 5000, 500);  // five standard deviations of an even choice
  // A larger choice by the same seed holds the smaller one.
  const PointCloud larger = choose_points(cloud, 2000, 1);
  EXPECT_TRUE(std::ranges::includes(
      larger.points, a.points, {}, [](const auto& p) { return p.x(); }, [](const auto& p) { return p.x(); }));
  EXPECT_EQ(choose_points(cloud, 20000, 1).points.size(), 10000u);
}

TEST(FilterCloud, AppliesAndCountsInOrder) {
  BuiltScene scene;
  PointCloud cloud = line_of(1000);
  cloud.points.emplace_back(500.f, 4000.f, 0.f);  // far from all others
  cloud.colors.emplace_back(0, 0, 0);
  scene.median_depth = 100;
  CloudFilters filters;
  filters.voxel = 0.02;  // side 2: two points to a voxel
  filters.outliers = OutlierFilter{5, 2};
  filters.max_points = 100;
  filter_cloud(cloud, filters, scene);
  EXPECT_NEAR(static_cast<double>(left_by(scene, "voxel")), 501, 2);
  EXPECT_LT(left_by(scene, "outliers"), left_by(scene, "voxel"));
  EXPECT_EQ(left_by(scene, "max points"), 100);
  ASSERT_EQ(cloud.points.size(), 100u);
  for (const auto& point : cloud.points) EXPECT_EQ(point.y(), 0);
}

}  // namespace
}  // namespace vggt
