#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <random>

#include "app/adjust/bundle_adjustment.h"

namespace {

using namespace vggt;

constexpr int kCameras = 5, kAnchorsOfCamera = 40;

Eigen::Vector2d project(const BundleCamera& camera, const Eigen::Vector3d& point) {
  const Eigen::Vector3d seen = camera.rotation * point + camera.translation;
  return seen.head<2>().cwiseQuotient(Eigen::Vector2d::Constant(seen.z())).cwiseProduct(camera.focal);
}

/// Cameras on an arc around points before the first one, which is the world; every sighting is exact.
Bundle exact_bundle() {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1, 1);
  Bundle bundle;
  for (int i = 0; i < kCameras; ++i) {
    BundleCamera camera;
    camera.rotation = Eigen::AngleAxisd(0.1 * i, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
    camera.translation = Eigen::Vector3d(-0.15 * i, 0.05 * i, 0.02 * i);
    camera.focal = {300, 320};
    camera.free = i > 0;
    bundle.cameras.push_back(camera);
  }
  for (int i = 0; i < kCameras; ++i) {
    const BundleCamera& own = bundle.cameras[static_cast<std::size_t>(i)];
    for (int k = 0; k < kAnchorsOfCamera; ++k) {
      const double depth = 2 + 0.8 * unit(random);
      const Eigen::Vector2d pixel(120 * unit(random), 90 * unit(random));
      const Eigen::Vector3d point =
          own.rotation.transpose() * (depth * pixel.cwiseQuotient(own.focal).homogeneous() - own.translation);
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
    const Eigen::Matrix3d turn = a.cameras[i].rotation * b.cameras[i].rotation.transpose();
    worst = std::max(worst, Eigen::AngleAxisd(turn).angle());
  }
  return worst;
}

double worst_shift(const Bundle& a, const Bundle& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.cameras.size(); ++i) {
    worst = std::max(worst, (a.cameras[i].translation - b.cameras[i].translation).norm());
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
  for (BundleCamera& camera : bundle.cameras) {
    camera.focal *= 1.04;
    if (!camera.free) continue;
    const Eigen::Vector3d axis = Eigen::Vector3d(normal(random), normal(random), normal(random)).normalized();
    camera.rotation = Eigen::AngleAxisd(0.03, axis).toRotationMatrix() * camera.rotation;
    camera.translation += 0.04 * Eigen::Vector3d(normal(random), normal(random), normal(random));
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
  adjust_bundle(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10});
  EXPECT_LT(worst_turn(bundle, truth), 2e-4);
  EXPECT_NEAR(bundle.log_focal, -std::log(1.04), 2e-3);
  double scale = 0;
  for (std::size_t i = 0; i < truth.anchors.size(); ++i) {
    scale += (bundle.anchors[i].log_depth - truth.anchors[i].log_depth) /
             static_cast<double>(truth.anchors.size());
  }
  for (Anchor& anchor : bundle.anchors) anchor.log_depth -= scale;
  for (BundleCamera& camera : bundle.cameras) camera.translation *= std::exp(-scale);
  EXPECT_LT(worst_shift(bundle, truth), 2e-3);
  EXPECT_LT(mean_depth_error(bundle, truth), 2e-3);
}

TEST(BundleAdjustment, WhatIsRightStays) {
  const Bundle truth = exact_bundle();
  Bundle bundle = truth;
  adjust_bundle(bundle, {});
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
  adjust_bundle(bundle, {});
  adjust_bundle(without, {});
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
  adjust_bundle(trusting, {});
  adjust_bundle(knowing, {});
  EXPECT_LT(worst_turn(knowing, truth), 2e-3);
  EXPECT_LT(worst_turn(knowing, truth), 0.3 * worst_turn(trusting, truth));
  EXPECT_LT(mean_depth_error(knowing, truth), 0.5 * mean_depth_error(trusting, truth));
}

TEST(BundleAdjustment, CamerasThatAreNotFreeStay) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth);
  bundle.cameras[2].free = bundle.cameras[3].free = false;
  const Bundle given = bundle;
  adjust_bundle(bundle, {});
  for (const std::size_t i : {0, 2, 3}) {
    EXPECT_EQ(bundle.cameras[i].rotation, given.cameras[i].rotation);
    EXPECT_EQ(bundle.cameras[i].translation, given.cameras[i].translation);
  }
  EXPECT_NE(bundle.cameras[1].rotation, given.cameras[1].rotation);
  for (BundleCamera& camera : bundle.cameras) camera.free = false;
  adjust_bundle(bundle, {});  // depths and focal length alone
}

TEST(BundleAdjustment, TightPriorsHold) {
  const Bundle given = beside(exact_bundle());
  Bundle bundle = given;
  adjust_bundle(bundle, {.rotation = 1e-7, .translation = 1e-7, .log_depth = 1e-7, .log_focal = 1e-7});
  EXPECT_LT(worst_turn(bundle, given), 1e-6);
  EXPECT_LT(worst_shift(bundle, given), 1e-6);
  EXPECT_LT(mean_depth_error(bundle, given), 1e-6);
}

TEST(BundleAdjustment, NothingToGoByChangesNothing) {
  Bundle bundle = beside(exact_bundle());
  bundle.sightings.clear();
  const Bundle given = bundle;
  adjust_bundle(bundle, {});
  EXPECT_LT(worst_turn(bundle, given), 1e-12);
  for (const double value : depth_information(bundle)) EXPECT_EQ(value, 0);

  // A camera of which no sighting tells stays, and so does one behind which all anchors lie.
  bundle = exact_bundle();
  std::erase_if(bundle.sightings, [&](const Sighting& s) {
    return s.frame == 4 || bundle.anchors[static_cast<std::size_t>(s.anchor)].frame >= 3;
  });
  bundle.cameras[3].translation.z() -= 100;
  const Bundle before = bundle;
  adjust_bundle(bundle, {});
  for (const std::size_t i : {3, 4}) {
    EXPECT_LT((bundle.cameras[i].translation - before.cameras[i].translation).norm(), 1e-9) << i;
  }
}

TEST(BundleAdjustment, InformationIsThatOfParallax) {
  Bundle truth = exact_bundle();
  const Eigen::Matrix2d whitening{{2, 0}, {0.5, 1}};
  for (Sighting& sighting : truth.sightings) sighting.whitening = whitening;
  const std::vector<double> information = depth_information(truth);
  for (std::size_t n = 0; n < truth.anchors.size(); n += 17) {
    const Anchor& anchor = truth.anchors[n];
    const BundleCamera& own = truth.cameras[static_cast<std::size_t>(anchor.frame)];
    double expected = 0;
    for (const Sighting& sighting : truth.sightings) {
      if (sighting.anchor != static_cast<int>(n)) continue;
      const double step = 1e-5, depth = std::exp(anchor.log_depth + step);
      const Eigen::Vector3d point =
          own.rotation.transpose() *
          (depth * anchor.pixel.cwiseQuotient(own.focal).homogeneous() - own.translation);
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
  adjust_bundle(bundle, loose());
  for (const BundleCamera& camera : bundle.cameras) {
    EXPECT_TRUE(camera.rotation.allFinite() && camera.translation.allFinite());
    EXPECT_NEAR(camera.rotation.determinant(), 1, 1e-6);
  }
}

}  // namespace
