#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <opencv2/core/utility.hpp>
#include <random>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/sighting_error.h"

namespace {

using namespace vggt;

constexpr int kCameras = 5, kAnchorsOfCamera = 40, kReach = 5;

/// The world's point that a pixel shows.
Eigen::Vector3d unproject(const Bundle& bundle, int frame, const Eigen::Vector2d& pixel, double depth) {
  return bundle.poses[static_cast<std::size_t>(frame)].inverse() *
         (depth * seen_at(bundle.lenses[0], pixel).homogeneous());
}

Eigen::Vector2d project(const Bundle& bundle, int frame, const Eigen::Vector3d& point) {
  return shown_at(bundle.lenses[0], (bundle.poses[static_cast<std::size_t>(frame)] * point).hnormalized());
}

/// Cameras on an arc around points before the first one, which is the world; every sighting is exact.
Bundle exact_bundle(const Eigen::Vector2d& distortion = Eigen::Vector2d::Zero(), int cameras = kCameras) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1, 1);
  Bundle bundle;
  bundle.lenses.push_back({{300, 320}, {150, 110}, distortion});
  bundle.lens_free.push_back({});
  for (int i = 0; i < cameras; ++i) {
    Eigen::Isometry3d pose = Eigen::Isometry3d::Identity();
    pose.linear() = Eigen::AngleAxisd(0.1 * i, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
    pose.translation() << -0.15 * i, 0.05 * i, 0.02 * i;
    bundle.poses.push_back(pose);
    bundle.free.push_back(i > 0);
    bundle.lens_of.push_back(0);
  }
  for (int i = 0; i < cameras; ++i) {
    for (int k = 0; k < kAnchorsOfCamera; ++k) {
      const double depth = 2 + 0.8 * unit(random);
      const Eigen::Vector2d pixel(150 + 120 * unit(random), 110 + 90 * unit(random));
      const Eigen::Vector3d point = unproject(bundle, i, pixel, depth);
      const int anchor = static_cast<int>(bundle.anchors.size());
      bundle.anchors.push_back({i, pixel, std::log(depth)});
      for (int j = std::max(0, i - kReach); j < std::min(cameras, i + kReach + 1); ++j) {
        if (j != i) bundle.sightings.push_back({anchor, j, project(bundle, j, point)});
      }
    }
  }
  return bundle;
}

double worst_turn(const Bundle& a, const Bundle& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.poses.size(); ++i) {
    const Eigen::Matrix3d turn = a.poses[i].linear() * b.poses[i].linear().transpose();
    worst = std::max(worst, Eigen::AngleAxisd(turn).angle());
  }
  return worst;
}

Eigen::Vector3d translation(const Bundle& bundle, std::size_t camera) {
  return bundle.poses[camera].translation();
}

double worst_shift(const Bundle& a, const Bundle& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.poses.size(); ++i) {
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
  bundle.lenses[0].focal *= 1.04;
  for (std::size_t i = 0; i < bundle.poses.size(); ++i) {
    if (!bundle.free[i]) continue;
    Eigen::Isometry3d& pose = bundle.poses[i];
    const Eigen::Vector3d axis = Eigen::Vector3d(normal(random), normal(random), normal(random)).normalized();
    pose.linear() = Eigen::AngleAxisd(0.03, axis).toRotationMatrix() * pose.linear();
    pose.translation() += 0.04 * Eigen::Vector3d(normal(random), normal(random), normal(random));
  }
  for (Anchor& anchor : bundle.anchors) anchor.log_depth += 0.1 * normal(random);
  return bundle;
}

void adjust(Bundle& bundle, const BundlePriors& priors) {
  adjust_bundle(bundle, bundle, priors, {}, {});
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
  adjust(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10});
  EXPECT_LT(worst_turn(bundle, truth), 2e-4);
  EXPECT_NEAR(bundle.lenses[0].focal.x() / 300, 1, 2e-3);
  double scale = 0;
  for (std::size_t i = 0; i < truth.anchors.size(); ++i) {
    scale += (bundle.anchors[i].log_depth - truth.anchors[i].log_depth) /
             static_cast<double>(truth.anchors.size());
  }
  for (Anchor& anchor : bundle.anchors) anchor.log_depth -= scale;
  for (Eigen::Isometry3d& pose : bundle.poses) pose.translation() *= std::exp(-scale);
  EXPECT_LT(worst_shift(bundle, truth), 2e-3);
  EXPECT_LT(mean_depth_error(bundle, truth), 2e-3);
}

TEST(BundleAdjustment, TakesNoMoreThanItMay) {
  const Bundle given = beside(exact_bundle());
  Bundle freely = given, within = given;
  adjust_bundle(freely, given, {}, {}, {});
  // Of frames that all see the same: for the matrix and sixteen parts.
  const std::size_t sixteen =
                        static_cast<std::size_t>(equation_bytes(static_cast<int64_t>(given.poses.size()))),
                    beside_them = given.sightings.size() * 96 + given.anchors.size() * 400;
  adjust_bundle(within, given, {}, {.most_bytes = sixteen / 8 + beside_them}, {});
  // Fewer parts of the anchors are summed one beside the other, and added in the same order.
  for (std::size_t i = 0; i < freely.poses.size(); ++i)
    EXPECT_EQ(within.poses[i].matrix(), freely.poses[i].matrix()) << i;
  for (std::size_t i = 0; i < freely.anchors.size(); ++i)
    EXPECT_EQ(within.anchors[i].log_depth, freely.anchors[i].log_depth) << i;
  EXPECT_THROW(adjust_bundle(within, given, {}, {.most_bytes = sixteen / 17}, {}), TooManyEquations);
}

TEST(BundleAdjustment, GivesUpWhereACostIsOutOfReach) {
  const Bundle truth = exact_bundle(), given = beside(truth);
  const auto cost = [&](int iterations, double hopeless, double first_scale = 1) {
    Bundle bundle = given;
    return adjust_bundle(bundle, given, loose(),
                         {.first_scale = first_scale, .iterations = iterations, .hopeless = hopeless}, {});
  };
  const double one = cost(1, 1e300), all = cost(15, 1e300);
  ASSERT_LT(all, one / 10);
  EXPECT_EQ(cost(15, 2 * all), all);  // which is within reach all along
  EXPECT_EQ(cost(15, -1e300), one);
  EXPECT_EQ(cost(15, -1e300, 4), cost(4, 1e300, 4));  // the scales 4, 2.4 and 1.44 come first
}

TEST(BundleAdjustment, WhatIsRightStays) {
  const Bundle truth = exact_bundle();
  Bundle bundle = truth;
  adjust(bundle, {});
  EXPECT_LT(worst_turn(bundle, truth), 1e-9);
  EXPECT_LT(worst_shift(bundle, truth), 1e-9);
  EXPECT_NEAR(bundle.lenses[0].focal.x(), 300, 1e-6);
}

TEST(BundleAdjustment, WrongSightingsCountLittle) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth), without = bundle;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (std::size_t i = 0; i < bundle.sightings.size(); i += 5) {
    bundle.sightings[i].pixel = {150 + 150 * unit(random), 110 + 100 * unit(random)};
  }
  adjust(bundle, {});
  adjust(without, {});
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
  adjust(trusting, {});
  adjust(knowing, {});
  EXPECT_LT(worst_turn(knowing, truth), 2e-3);
  EXPECT_LT(worst_turn(knowing, truth), 0.3 * worst_turn(trusting, truth));
  EXPECT_LT(mean_depth_error(knowing, truth), 0.5 * mean_depth_error(trusting, truth));
}

TEST(BundleAdjustment, CamerasThatAreNotFreeStay) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth);
  bundle.free[2] = bundle.free[3] = false;
  const Bundle given = bundle;
  adjust(bundle, {});
  for (const std::size_t i : {0, 2, 3}) {
    EXPECT_EQ(bundle.poses[i].matrix(), given.poses[i].matrix());
  }
  EXPECT_NE(bundle.poses[1].linear(), given.poses[1].linear());
  bundle.free.assign(bundle.free.size(), false);
  adjust(bundle, {});  // depths and focal length alone
}

TEST(BundleAdjustment, TightPriorsHold) {
  const Bundle given = beside(exact_bundle());
  Bundle bundle = given;
  adjust(bundle, {.rotation = 1e-7, .translation = 1e-7, .log_depth = 1e-7, .log_focal = 1e-7});
  EXPECT_LT(worst_turn(bundle, given), 1e-6);
  EXPECT_LT(worst_shift(bundle, given), 1e-6);
  EXPECT_LT(mean_depth_error(bundle, given), 1e-6);
}

TEST(BundleAdjustment, NothingToGoByChangesNothing) {
  Bundle bundle = beside(exact_bundle());
  bundle.sightings.clear();
  const Bundle given = bundle;
  adjust(bundle, {});
  EXPECT_LT(worst_turn(bundle, given), 1e-12);
  for (const double value : depth_information(bundle)) EXPECT_EQ(value, 0);

  // A camera of which no sighting tells stays, and so does one behind which all anchors lie.
  bundle = exact_bundle();
  std::erase_if(bundle.sightings, [&](const Sighting& s) {
    return s.frame == 4 || bundle.anchors[static_cast<std::size_t>(s.anchor)].frame >= 3;
  });
  bundle.poses[3].translation().z() -= 100;
  const Bundle before = bundle;
  adjust(bundle, {});
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
    double expected = 0;
    for (const Sighting& sighting : truth.sightings) {
      if (sighting.anchor != static_cast<int>(n)) continue;
      const double step = 1e-5, depth = std::exp(anchor.log_depth + step);
      const Eigen::Vector3d point = unproject(truth, anchor.frame, anchor.pixel, depth);
      const Eigen::Vector2d moved = project(truth, sighting.frame, point) - sighting.pixel;
      expected += (whitening * moved).squaredNorm() / (step * step);
    }
    EXPECT_NEAR(information[n], expected, 1e-3 * expected) << n;
  }
}

TEST(BundleAdjustment, LeavesLooseProblemsFinite) {
  Bundle bundle = beside(exact_bundle());
  for (Sighting& sighting : bundle.sightings) sighting.pixel << 150, 110;  // all see everything in the middle
  adjust(bundle, loose());
  for (const Eigen::Isometry3d& pose : bundle.poses) {
    EXPECT_TRUE(pose.matrix().allFinite());
    EXPECT_NEAR(pose.linear().determinant(), 1, 1e-6);
  }
}

TEST(BundleAdjustment, FindsTheDistortionThatIsFree) {
  const Bundle truth = exact_bundle({-0.12, 0.05});
  for (const bool both : {true, false}) {
    Bundle bundle = beside(truth);
    bundle.lenses[0].distortion.setZero();
    bundle.lens_free[0] = {true, false, true, both};
    adjust(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10, .k1 = 1, .k2 = 1});
    if (!both) {
      EXPECT_EQ(bundle.lenses[0].distortion[1], 0);
      continue;
    }
    EXPECT_NEAR(bundle.lenses[0].distortion[0], -0.12, 2e-3);
    EXPECT_NEAR(bundle.lenses[0].distortion[1], 0.05, 1e-2);
    EXPECT_LT(worst_turn(bundle, truth), 2e-4);
  }
}

TEST(BundleAdjustment, FindsTheSecondFocalLengthOnlyWhereItIsFree) {
  const Bundle truth = exact_bundle();
  for (const bool free : {true, false}) {
    Bundle bundle = truth;
    bundle.lenses[0].focal.y() *= 1.03;
    bundle.lens_free[0].aspect = free;
    adjust(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10, .log_aspect = 10});
    const double aspect = bundle.lenses[0].focal.y() / bundle.lenses[0].focal.x();
    EXPECT_NEAR(aspect, free ? 320.0 / 300 : 1.03 * 320 / 300, free ? 1e-3 : 1e-12);
  }
}

TEST(BundleAdjustment, EachLensHasItsOwnFocalLength) {
  const Bundle truth = exact_bundle();
  Bundle bundle = beside(truth);
  bundle.lenses.push_back(bundle.lenses[0]);
  bundle.lens_free.push_back({});
  bundle.lens_of = {0, 1, 0, 1, 0};
  bundle.lenses[1].focal *= 0.95;
  adjust(bundle, {.rotation = 10, .translation = 1, .log_depth = 3, .log_focal = 10});
  for (const Lens& lens : bundle.lenses) EXPECT_NEAR(lens.focal.x() / 300, 1, 2e-3);
  EXPECT_NE(bundle.lenses[0].focal.x(), bundle.lenses[1].focal.x());
  bundle.lens_free[1].focal = false;
  const double kept = bundle.lenses[1].focal.x();
  adjust(bundle, {});
  EXPECT_EQ(bundle.lenses[1].focal.x(), kept);
}

/// Steps with a product of lenses, poses or depths left out leave errors of pixels.
TEST(BundleAdjustment, FewStepsFindLensesPosesAndDepths) {
  Bundle bundle = exact_bundle({0.1, -0.05});
  bundle.lenses.resize(2, bundle.lenses[0]);
  bundle.lens_free = {{.aspect = true, .k1 = true, .k2 = true}, {.k1 = true}};
  bundle.lens_of = {0, 1, 1, 0, 1};
  bundle = beside(bundle);
  bundle.lenses[0].distortion *= 0.8;
  bundle.lenses[0].focal.y() *= 1.01;
  bundle.lenses[1].distortion[0] *= 0.8;
  ASSERT_GT(std::ranges::max(sighting_errors(bundle)), 20);
  adjust_bundle(bundle, bundle, loose(), {.first_scale = 1, .iterations = 6, .converged = 0}, {});
  EXPECT_LT(std::ranges::max(sighting_errors(bundle)), 0.1);
}

/// Each thread sums up the columns of its nodes: frames and lenses, of which an anchor sees some twice.
TEST(BundleAdjustment, ThreadsChangeNothing) {
  Bundle given = beside(exact_bundle(Eigen::Vector2d::Zero(), 20));
  given.lenses.resize(3, given.lenses[0]);
  given.lens_free.resize(3);
  for (std::size_t i = 0; i < given.lens_of.size(); ++i) given.lens_of[i] = static_cast<int>(i % 3);
  given.free[7] = false;
  std::erase_if(given.sightings, [](const Sighting& sighting) { return sighting.anchor % 9 == 0; });
  const int before = cv::getNumThreads();
  std::vector<Bundle> results;
  for (const int threads : {1, 4}) {
    cv::setNumThreads(threads);
    adjust(results.emplace_back(given), {});
  }
  cv::setNumThreads(before);
  EXPECT_EQ(results[0].poses[7].matrix(), given.poses[7].matrix());
  EXPECT_EQ(results[0].anchors[9].log_depth, given.anchors[9].log_depth);
  EXPECT_NE(results[0].lenses[2].focal, given.lenses[2].focal);
  for (std::size_t i = 0; i < given.poses.size(); ++i)
    EXPECT_EQ(results[0].poses[i].matrix(), results[1].poses[i].matrix()) << i;
  for (std::size_t i = 0; i < given.lenses.size(); ++i)
    EXPECT_EQ(results[0].lenses[i].focal, results[1].lenses[i].focal) << i;
  for (std::size_t i = 0; i < given.anchors.size(); ++i)
    EXPECT_EQ(results[0].anchors[i].log_depth, results[1].anchors[i].log_depth) << i;
}

// More frames than a tile of the equations' matrix holds, most of which share nothing.
TEST(BundleAdjustment, LongSequencesAreAdjusted) {
  const Bundle truth = exact_bundle(Eigen::Vector2d::Zero(), 30);
  Bundle bundle = beside(truth);
  const Bundle given = bundle;
  adjust(bundle, {.rotation = 10, .translation = 10, .log_depth = 3, .log_focal = 10});
  EXPECT_LT(worst_turn(bundle, truth), 0.02 * worst_turn(given, truth));
}

}  // namespace
