// A camera's rays and projections, with and without distortion, and its model's names.
#include <gtest/gtest.h>

#include <cmath>

#include "io/scene/camera.h"

namespace {

using namespace vggt;

Camera camera_with(const Eigen::Vector2d& distortion) {
  Camera camera;
  camera.width = 640;
  camera.height = 480;
  camera.k << 500, 0, 321, 0, 510, 238, 0, 0, 1;
  camera.distortion = distortion;
  return camera;
}

TEST(Camera, RaysShowWhereTheyCameFrom) {
  for (const Eigen::Vector2d& distortion :
       {Eigen::Vector2d(0, 0), Eigen::Vector2d(-0.25, 0.08), Eigen::Vector2d(0.3, 0),
        Eigen::Vector2d(-0.1, 0), Eigen::Vector2d(0, -0.05)}) {
    const Camera camera = camera_with(distortion);
    for (double y = -0.5; y < 480; y += 60) {
      for (double x = -0.5; x < 640; x += 40) {
        const Eigen::Vector3d ray = camera.ray({x, y});
        ASSERT_EQ(ray.z(), 1);
        ASSERT_LT((camera.project(ray) - Eigen::Vector2d(x, y)).norm(), 1e-9) << distortion.transpose();
        ASSERT_LT((camera.project(3.7 * ray) - Eigen::Vector2d(x, y)).norm(), 1e-9);
      }
    }
  }
}

TEST(Camera, ProjectsAsColmapsRadial) {
  const Camera camera = camera_with({-0.2, 0.03});
  const double u = 0.4, v = -0.3, r2 = u * u + v * v, d = 1 - 0.2 * r2 + 0.03 * r2 * r2;
  const Eigen::Vector2d shown = camera.project({2 * u, 2 * v, 2});
  EXPECT_NEAR(shown.x(), 500 * d * u + 321, 1e-12);
  EXPECT_NEAR(shown.y(), 510 * d * v + 238, 1e-12);
}

TEST(Camera, WhatNoPointShowsHasNoRay) {
  // r·(1 - r²/2) is at most .544, at r = .816.
  const Camera camera = camera_with({-0.5, 0});
  EXPECT_TRUE(camera.ray({321 + 500 * 0.54, 238}).allFinite());
  EXPECT_NEAR(
      camera.ray({321 + 500 * 0.5, 238}).x() * (1 - std::pow(camera.ray({321 + 500 * 0.5, 238}).x(), 2) / 2),
      0.5, 1e-12);
  EXPECT_FALSE(camera.ray({321 + 500 * 0.56, 238}).allFinite());
  EXPECT_EQ(camera.ray({321, 238}), Eigen::Vector3d(0, 0, 1));
}

TEST(Camera, ModelsHaveColmapsNames) {
  EXPECT_EQ(colmap_name(CameraModel::simple_pinhole), "SIMPLE_PINHOLE");
  EXPECT_EQ(colmap_name(CameraModel::radial), "RADIAL");
  EXPECT_EQ(camera_model_named("simple-radial"), CameraModel::simple_radial);
  EXPECT_EQ(camera_model_named("PINHOLE"), CameraModel::pinhole);
  EXPECT_FALSE(camera_model_named("OPENCV"));
}

}  // namespace
