#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <random>

#include "app/adjust/bundle_adjustment.h"

namespace {

using namespace vggt;

constexpr int kCameras = 5, kAnchorsOfCamera = 40;

Eigen::Vector2d focal(const Camera& camera) {
  return camera.k.diagonal().head<2>();
}

/// The world's point that a pixel shows, both pixel and projection from the principal point.
Eigen::Vector3d unproject(const Camera& camera, const Eigen::Vector2d& pixel, double depth) {
  return camera.cam_from_world.inverse() * (depth * pixel.cwiseQuotient(focal(camera)).homogeneous());
}

Eigen::Vector2d project(const Camera& camera, const Eigen::Vector3d& point) {
  const Eigen::Vector3d seen = camera.cam_from_world * point;
  return seen.hnormalized().cwiseProduct(focal(camera));
}

/// Cameras on an arc around points before the first one, which is the world; every sighting is exact.
Bundle exact_bundle() {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1, 1);
  Bundle bundle;
  for (int i = 0; i < kCameras; ++i) {
    Camera camera;
    camera.cam_from_world = Eigen::AngleAxisd(0.1 * i, Eigen::Vector3d(0.1, 1, 0).normalized());
    camera.cam_from_world.translation() << -0.15 * i, 0.05 * i, 0.02 * i;
    camera.k.diagonal() << 300, 320, 1;
    bundle.cameras.push_back(camera);
    bundle.free.push_back(i > 0);
  }
  for (int i = 0; i < kCameras; ++i) {
    const Camera& own = bundle.cameras[static_cast<std::size_t>(i)];
    for (int k = 0; k < kAnchorsOfCamera; ++k) {
      const double depth = 2 + 0.8 * unit(random);
      const Eigen::Vector2d pixel(120 * unit(random), 90 * unit(random));
      const Eigen::Vector3d point = unproject(own, pixel, depth);
      const int anchor = static_cast<int>(bundle.anchors.size());
      bundle.anchors.push_back({i, pixel, std::log(depth)});
      for (int j = 0; j < kCameras; ++j) {
        if (j != i)
          bundle.sightings.push_back(
              {anchor, j, project(bundle.cameras[static_cast<std::size_t>(j)], point)});
      }
    }
  }
  return bundle;
}

double worst_turn(const Bundle& a, const Bundle& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.cameras.size(); ++i) {
    const Eigen::Matrix3d turn =
        a.cameras[i].cam_from_world.linear() * b.cameras[i].cam_from_world.linear().transpose();
    worst = std::max(worst, Eigen::AngleAxisd(turn).angle());
  }
  return worst;
}

Eigen::Vector3d translation(const Bundle& bundle, std::size_t camera) {
  return bundle.cameras[camera].cam_from_world.translation();
}

double worst_shift(const Bundle& a, const Bundle& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.cameras.size(); ++i) {
    worst = std::max(worst, (translation(a, i) - translation(b, i)).norm());
  }
  return worst;
}

double mean_depth_error(const Bundle& a, const Bundle& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.anchors.size(); ++i)
    sum += std::abs(a.anchors[i].log_depth - b.anchors[i].log_depth);
  return sum / static_cast<double>(a.anchors.size());
}

/// Poses, depths and focal length some hundredths beside the truth.
Bundle beside(const Bundle& truth) {
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  Bundle bundle = truth;
  for (std::size_t i = 0; i < bundle.cameras.size(); ++i) {
    Camera& camera = bundle.cameras[i];
    camera.k.diagonal().head<2>() *= 1.04;
    if (!bundle.free[i]) continue;
    const Eigen::Vector3d axis = Eigen::Vector3d(normal(random), normal(random), normal(random)).normalized();
    camera.cam_from_world.linear() =
        Eigen::AngleAxisd(0.03, axis).toRotationMatrix() * camera.cam_from_world.linear();
    camera.cam_from_world.translation() +=
        0.04 * Eigen::Vector3d(normal(random), normal(random), normal(random));
  }
  for (Anchor& anchor : bundle.anchors) anchor.log_depth += 0.1 * normal(random);
  return bundle;
}

/// Priors that hardly matter.
BundlePriors loose() {
  return {.rotation = 10, .translation = 100, .log_depth = 30, .log_focal = 10};
}

TEST(BundleAdjustment, FindsTheTruthFromExactSightings) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth);
  const Bundle given = bundle;
  ASSERT_GT(worst_turn(given, truth), 0.02);
  // The scale hangs on the priors alone.
  adjust_bundle(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10}, {});
  EXPECT_LT(worst_turn(bundle, truth), 2e-4);
  EXPECT_NEAR(bundle.log_focal, -std::log(1.04), 2e-3);
  double scale = 0;
  for (std::size_t i = 0; i < truth.anchors.size(); ++i) {
    scale += (bundle.anchors[i].log_depth - truth.anchors[i].log_depth) /
             static_cast<double>(truth.anchors.size());
  }
  for (Anchor& anchor : bundle.anchors) anchor.log_depth -= scale;
  for (Camera& camera : bundle.cameras) camera.cam_from_world.translation() *= std::exp(-scale);
  EXPECT_LT(worst_shift(bundle, truth), 2e-3);
  EXPECT_LT(mean_depth_error(bundle, truth), 2e-3);
}

TEST(BundleAdjustment, WhatIsRightStays) {
  const Bundle truth = exact_bundle();
  Bundle bundle = truth;
  adjust_bundle(bundle, {}, {});
  EXPECT_LT(worst_turn(bundle, truth), 1e-9);
  EXPECT_LT(worst_shift(bundle, truth), 1e-9);
  EXPECT_NEAR(bundle.log_focal, 0, 1e-9);
}

TEST(BundleAdjustment, WrongSightingsCountLittle) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth), without = bundle;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (std::size_t i = 0; i < bundle.sightings.size(); i += 5) {
    bundle.sightings[i].pixel = {150 * unit(random), 100 * unit(random)};
  }
  adjust_bundle(bundle, {}, {});
  adjust_bundle(without, {}, {});
  EXPECT_LT(worst_turn(bundle, truth), worst_turn(without, truth) + 5e-4);
  EXPECT_LT(worst_turn(bundle, truth), 0.1 * worst_turn(beside(truth), truth));
}

TEST(BundleAdjustment, ASightingCountsAsFarAsItsWhiteningSays) {
  const Bundle truth = exact_bundle();
  Bundle trusting = beside(truth);
  std::mt19937 random(8);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> angle(0, 3);
  Bundle knowing = trusting;
  for (std::size_t i = 0; i < knowing.sightings.size(); ++i) {
    // Along one direction, each its own, a sighting is off by some pixels.
    const Eigen::Rotation2Dd turn(angle(random));
    const Eigen::Vector2d off = turn * Eigen::Vector2d(4 * normal(random), 0);
    for (Bundle* bundle : {&trusting, &knowing}) bundle->sightings[i].pixel += off;
    knowing.sightings[i].whitening =
        Eigen::Vector2d(0.02, 5).asDiagonal() * turn.inverse().toRotationMatrix();
  }
  adjust_bundle(trusting, {}, {});
  adjust_bundle(knowing, {}, {});
  EXPECT_LT(worst_turn(knowing, truth), 2e-3);
  EXPECT_LT(worst_turn(knowing, truth), 0.3 * worst_turn(trusting, truth));
  EXPECT_LT(mean_depth_error(knowing, truth), 0.5 * mean_depth_error(trusting, truth));
}

TEST(BundleAdjustment, CamerasThatAreNotFreeStay) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth);
  bundle.free[2] = bundle.free[3] = false;
  const Bundle given = bundle;
  adjust_bundle(bundle, {}, {});
  for (const std::size_t i : {0, 2, 3}) {
    EXPECT_EQ(bundle.cameras[i].cam_from_world.matrix(), given.cameras[i].cam_from_world.matrix());
  }
  EXPECT_NE(bundle.cameras[1].cam_from_world.linear(), given.cameras[1].cam_from_world.linear());
  bundle.free.assign(bundle.free.size(), false);
  adjust_bundle(bundle, {}, {});  // depths and focal length alone
}

TEST(BundleAdjustment, TightPriorsHold) {
  const Bundle given = beside(exact_bundle());
  Bundle bundle = given;
  adjust_bundle(bundle, {.rotation = 1e-7, .translation = 1e-7, .log_depth = 1e-7, .log_focal = 1e-7}, {});
  EXPECT_LT(worst_turn(bundle, given), 1e-6);
  EXPECT_LT(worst_shift(bundle, given), 1e-6);
  EXPECT_LT(mean_depth_error(bundle, given), 1e-6);
}

TEST(BundleAdjustment, NothingToGoByChangesNothing) {
  Bundle bundle = beside(exact_bundle());
  bundle.sightings.clear();
  const Bundle given = bundle;
  adjust_bundle(bundle, {}, {});
  EXPECT_LT(worst_turn(bundle, given), 1e-12);
  for (const double value : depth_information(bundle)) EXPECT_EQ(value, 0);

  // A camera of which no sighting tells stays, and so does one behind which all anchors lie.
  bundle = exact_bundle();
  std::erase_if(bundle.sightings, [&](const Sighting& s) {
    return s.frame == 4 || bundle.anchors[static_cast<std::size_t>(s.anchor)].frame >= 3;
  });
  bundle.cameras[3].cam_from_world.translation().z() -= 100;
  const Bundle before = bundle;
  adjust_bundle(bundle, {}, {});
  for (const std::size_t i : {3, 4}) {
    EXPECT_LT((translation(bundle, i) - translation(before, i)).norm(), 1e-9) << i;
  }
}

TEST(BundleAdjustment, InformationIsThatOfParallax) {
  Bundle truth = exact_bundle();
  const Eigen::Matrix2d whitening{{2, 0}, {0.5, 1}};
  for (Sighting& sighting : truth.sightings) sighting.whitening = whitening;
  const std::vector<double> information = depth_information(truth);
  for (std::size_t n = 0; n < truth.anchors.size(); n += 17) {
    const Anchor& anchor = truth.anchors[n];
    const Camera& own = truth.cameras[static_cast<std::size_t>(anchor.frame)];
    double expected = 0;
    for (const Sighting& sighting : truth.sightings) {
      if (sighting.anchor != static_cast<int>(n)) continue;
      const double step = 1e-5, depth = std::exp(anchor.log_depth + step);
      const Eigen::Vector3d point = unproject(own, anchor.pixel, depth);
      const Eigen::Vector2d moved =
          project(truth.cameras[static_cast<std::size_t>(sighting.frame)], point) - sighting.pixel;
      expected += (whitening * moved).squaredNorm() / (step * step);
    }
    EXPECT_NEAR(information[n], expected, 1e-3 * expected) << n;
  }
}

TEST(BundleAdjustment, LeavesLooseProblemsFinite) {
  Bundle bundle = beside(exact_bundle());
  for (Sighting& sighting : bundle.sightings) sighting.pixel.setZero();  // all see everything in the middle
  adjust_bundle(bundle, loose(), {});
  for (const Camera& camera : bundle.cameras) {
    EXPECT_TRUE(camera.cam_from_world.matrix().allFinite());
    EXPECT_NEAR(camera.cam_from_world.linear().determinant(), 1, 1e-6);
  }
}

}  // namespace
