// Depth maps as a bundle adjustment leaves them.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "app/adjust/depth_correction.h"
#include "io/scene/radial_distortion.h"
#include "tests/support/adjusted_scene.h"

namespace {

using namespace vggt;
using namespace vggt::test;

Bundle without_anchors(const Scene& scene) {
  Bundle bundle;
  for (const Camera& camera : scene.cameras) {
    bundle.poses.push_back(camera.cam_from_world);
    bundle.free.push_back(true);
    bundle.lens_of.push_back(0);
  }
  bundle.lenses.push_back({{200, 200}, {kWidth / 2.0, kHeight / 2.0}});
  bundle.lens_free.emplace_back();
  return bundle;
}

/// As of a video whose network takes a far wall for one at half its distance.
TEST(CorrectedDepth, MapsFollowLargeChangesWhereTheNetworkIsNotBelieved) {
  const Scene truth;
  Bundle bundle = without_anchors(truth);
  std::vector<double> before;
  std::vector<float> given = truth.depth[0];
  const auto share = [](int x) { return x < kWidth / 2 ? 1.0 : 0.4; };
  for (std::size_t i = 0; i < kPixels; ++i)
    given[i] *= static_cast<float>(share(static_cast<int>(i % static_cast<std::size_t>(kWidth))));
  for (int y = 3; y < kHeight; y += 7) {
    for (int x = 3; x < kWidth; x += 7) {
      const double depth = truth.depth[0][static_cast<std::size_t>(y * kWidth + x)];
      const Eigen::Vector3d point =
          truth.cameras[0].cam_from_world.inverse() * (depth * truth.cameras[0].ray({x, y}));
      const Eigen::Vector3d seen = truth.cameras[4].k * (truth.cameras[4].cam_from_world * point);
      bundle.sightings.push_back({static_cast<int>(bundle.anchors.size()), 4, seen.hnormalized()});
      bundle.anchors.push_back({0, {x, y}, std::log(depth)});
      before.push_back(std::log(depth * share(x)));
    }
  }
  const MatchInput input = truth.input();
  const std::vector<double> nearer(truth.cameras.size(), 0);
  const auto far_error = [&](bool believes_network) {
    DenseMaps maps(input.space, "depth");
    for (std::size_t f = 0; f < truth.depth.size(); ++f)
      maps.put_values(static_cast<int>(f), f == 0 ? given : truth.depth[f]);
    const CorrectedDepth corrected(input, maps, bundle, before, nearer, /*lean=*/false, {}, believes_network);
    corrected.write(truth.cameras, {}, /*lean=*/false, {}, maps);
    DenseMaps::Buffer buffer;
    const std::span<const float> values = maps.values(0, buffer);
    double sum = 0;
    for (std::size_t i = 0; i < kPixels; ++i)
      sum += std::abs(std::log(values[i] / truth.depth[0][i])) / static_cast<double>(kPixels);
    return sum;
  };
  EXPECT_GT(far_error(true), 0.4);
  EXPECT_LT(far_error(false), 0.06);
}

/// Of a frame whose focal length was found far from the network's.
TEST(CorrectedDepth, MapsFollowWhatAllOfTheirFrameChangesBy) {
  const Scene scene;
  const MatchInput input = scene.input();
  DenseMaps maps(input.space, "depth");
  for (std::size_t f = 0; f < scene.depth.size(); ++f) maps.put_values(static_cast<int>(f), scene.depth[f]);
  const Bundle bundle = without_anchors(scene);
  std::vector<double> nearer(scene.cameras.size(), 0);
  nearer[1] = std::log(0.4);
  const CorrectedDepth corrected(input, maps, bundle, {}, nearer, /*lean=*/false, {});
  corrected.write(scene.cameras, {}, /*lean=*/false, {}, maps);
  DenseMaps::Buffer buffer;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) {
    const float factor = f == 1 ? 0.4F : 1;
    const std::span<const float> values = maps.values(static_cast<int>(f), buffer);
    for (std::size_t i = 0; i < kPixels; ++i)
      ASSERT_NEAR(values[i], factor * scene.depth[f][i], 1e-5 * scene.depth[f][i]) << f;
  }
}

/// The second camera would show the rim of what the first one sees near its middle, folded back.
TEST(CorrectedDepth, WhatADistortionFoldsBackSaysNothing) {
  Scene scene;
  const MatchInput input = scene.input();
  scene.cameras[0].k(0, 0) = scene.cameras[0].k(1, 1) = kWidth / 4.0;
  scene.cameras[1] = scene.cameras[0];
  scene.cameras[1].distortion.x() = -0.3;
  DenseMaps maps(input.space, "depth");
  for (std::size_t f = 0; f < scene.depth.size(); ++f)
    maps.put_values(static_cast<int>(f), std::vector<float>(kPixels, f == 1 ? 1.05F : 1.F));
  const CorrectedDepth corrected(input, maps, without_anchors(scene), {},
                                 std::vector<double>(scene.cameras.size(), 0), /*lean=*/false, {});
  corrected.write(scene.cameras, {{0, 1}}, /*lean=*/false, {}, maps);
  DenseMaps::Buffer buffer;
  const std::span<const float> values = maps.values(0, buffer);
  const double unfolded = std::sqrt(unfolded_r2(scene.cameras[1].distortion));
  std::size_t within = 0, beyond = 0;
  for (std::size_t i = 0; i < kPixels; ++i) {
    const auto row = static_cast<int>(i) / kWidth, column = static_cast<int>(i) % kWidth;
    const double r = scene.cameras[0].ray({column, row}).hnormalized().norm();
    if (r < 0.98 * unfolded) {
      EXPECT_GT(values[i], 1.01F) << r;
      ++within;
    } else if (r > 1.02 * unfolded) {
      EXPECT_EQ(values[i], 1.F) << r;
      ++beyond;
    }
  }
  EXPECT_GT(within, kPixels / 10);
  EXPECT_GT(beyond, kPixels / 10);
}

}  // namespace
