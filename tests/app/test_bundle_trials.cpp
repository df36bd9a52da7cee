#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "app/adjust/bundle_trials.h"
#include "app/adjust/held_out.h"
#include "app/adjust/sighting_error.h"

namespace {

using namespace vggt;

constexpr int kFrames = 24, kAnchorsOfFrame = 150, kReach = 6;
constexpr double kFocal = 700;
const Events kSilent;

/// How a camera moves, and what the matches and the network err by.
struct Pan {
  double k1 = 0;
  double turn = 0.015, move = 0.02;  // from frame to frame: radians, units of which a depth has four
  double longer = 1;                 // the given focal length
  double noise = 0.3;                // of sightings, pixels
  double depth_error = 0.05;         // of the given depths, smooth in an image
  bool flat = false;                 // a wall that is seen straight on, without turning
  double k2 = 0;
};

/// The bundle as it is given.
Bundle given_bundle(const Pan& pan) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::normal_distribution<double> normal;
  Bundle truth;
  truth.lenses.push_back({{kFocal, kFocal}, {639.5, 359.5}, {pan.k1, pan.k2}});
  truth.lens_free.emplace_back();
  for (int i = 0; i < kFrames; ++i) {
    Eigen::Isometry3d pose = Eigen::Isometry3d::Identity();
    pose.linear() =
        Eigen::AngleAxisd(pan.turn * i, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
    pose.translation() << -pan.move * i, 0.1 * pan.move * (i % 3), pan.flat ? 0 : 0.2 * pan.move * i;
    truth.poses.push_back(pose);
    truth.free.push_back(i > 0);
    truth.lens_of.push_back(0);
  }
  Bundle given = truth;
  given.lenses[0].focal *= pan.longer;
  given.lenses[0].distortion.setZero();
  for (int i = 0; i < kFrames; ++i) {
    Eigen::AngleAxisd turn(truth.poses[static_cast<std::size_t>(i)].linear());
    turn.angle() /= pan.longer;
    given.poses[static_cast<std::size_t>(i)].linear() = turn.toRotationMatrix();
    given.poses[static_cast<std::size_t>(i)].translation().z() *= pan.longer;
    for (int k = 0; k < kAnchorsOfFrame; ++k) {
      const Eigen::Vector2d at(unit(random), unit(random));
      const Eigen::Vector2d pixel =
          Eigen::Vector2d(639.5, 359.5) + at.cwiseProduct(Eigen::Vector2d(600, 330));
      const double depth = pan.flat ? 4 : 4 + 1.5 * std::sin(2 * at.x() + 0.3 * i) * std::cos(2 * at.y());
      const AnchorRay ray(truth, {i, pixel, std::log(depth)});
      const int anchor = static_cast<int>(given.anchors.size());
      given.anchors.push_back(
          {i, pixel, std::log(depth * pan.longer) + pan.depth_error * std::sin(3 * at.x() + 0.5 * i)});
      for (int j = std::max(0, i - kReach); j < std::min(kFrames, i + kReach + 1); ++j) {
        if (j == i) continue;
        const Eigen::Vector3d seen = truth.poses[static_cast<std::size_t>(j)] * ray.in_world;
        const Eigen::Vector2d shown = shown_at(truth.lenses[0], seen.hnormalized()) +
                                      pan.noise * Eigen::Vector2d(normal(random), normal(random));
        if (shown.x() < 0 || shown.y() < 0 || shown.x() > 1279 || shown.y() > 719) continue;
        given.sightings.push_back({anchor, j, shown, Eigen::Matrix2d::Identity() / pan.noise});
      }
    }
  }
  return given;
}

/// Adjusted to matches of which a tenth is held out, as the passes do.
struct Outcome {
  Bundle found;
  std::optional<CameraModel> model;
  bool guesses = false;  // a focal length
  double nearer = 0;     // of the first frame
};

Outcome freed(Bundle given, const AdjustOptions& options = {}) {
  Outcome outcome{std::move(given), {}};
  Bundle& found = outcome.found;
  std::vector<Sighting> held_out = hold_out(found.sightings);
  BundleTrials trials(found, {}, options, static_cast<double>(found.poses.size()), kSilent);
  trials.hold_out(std::move(held_out));
  trials.adjust(found, {4, 15, 1e-4});
  trials.adjust(found, {});
  trials.free_what_pays(found);
  trials.free_k2_if_it_pays(found);
  trials.adjust(found, kFully);
  trials.judge_focals(found);
  outcome.model = trials.model();
  outcome.guesses = trials.holds_focal(found.lens_free);
  outcome.nearer = trials.log_nearer(0);
  return outcome;
}

Outcome freed(const Pan& pan, const AdjustOptions& options = {}) {
  return freed(given_bundle(pan), options);
}

/// The ground from ten units above, in two rows of five frames that look down, tilted by so much and a little
/// more or less. As a network gives it that knows no such photographs: the focal length `longer` times what
/// it is, the distances too, no distortion, poses off by several degrees.
Bundle ground_from_above(double tilt_deg, double longer, double k1 = 0) {
  constexpr int kRow = 5;
  constexpr double kHeight = 10, kRadians = M_PI / 180;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::normal_distribution<double> normal;
  Bundle truth;
  truth.lenses.push_back({{kFocal, kFocal}, {319.5, 239.5}, {k1, 0}});
  truth.lens_free.emplace_back();
  for (int i = 0; i < 2 * kRow; ++i) {
    const double tilt = kRadians * tilt_deg * (1 + 0.3 * std::sin(1.7 * i)),
                 turn = kRadians * 5 * std::sin(2.1 * i);
    const int column = i < kRow ? i : 2 * kRow - 1 - i;
    const Eigen::Vector3d place(2 * column, i < kRow ? 0 : 2.5, 0);
    Eigen::Isometry3d pose = Eigen::Isometry3d::Identity();
    pose.linear() = (Eigen::AngleAxisd(tilt, Eigen::Vector3d::UnitX()) *
                     Eigen::AngleAxisd(turn, Eigen::Vector3d::UnitZ()))
                        .toRotationMatrix();
    pose.translation() = -(pose.linear() * place);
    truth.poses.push_back(pose);
    truth.free.push_back(i > 0);
    truth.lens_of.push_back(0);
  }
  Bundle given = truth;
  given.lenses[0].focal *= longer;
  given.lenses[0].distortion.setZero();
  for (int i = 0; i < 2 * kRow; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Eigen::Vector3d off(unit(random), unit(random), unit(random));
    if (i > 0)
      given.poses[at].linear() =
          Eigen::AngleAxisd(kRadians * 6, off.normalized()).toRotationMatrix() * given.poses[at].linear();
    const Eigen::Isometry3d world_from_cam = truth.poses[at].inverse();
    for (int k = 0; k < kAnchorsOfFrame; ++k) {
      const Eigen::Vector2d pixel(319.5 + 310 * unit(random), 239.5 + 230 * unit(random));
      const Eigen::Vector3d ray = world_from_cam.linear() * seen_at(truth.lenses[0], pixel).homogeneous();
      const double depth = kHeight / ray.z();
      const Eigen::Vector3d point = world_from_cam.translation() + depth * ray;
      const int anchor = static_cast<int>(given.anchors.size());
      given.anchors.push_back(
          {i, pixel, std::log(depth * longer) + 0.1 * std::sin(pixel.x() / 100 + 0.5 * i)});
      for (int j = 0; j < 2 * kRow; ++j) {
        if (j == i) continue;
        constexpr double kNoise = 0.1;
        const Eigen::Vector3d seen = truth.poses[static_cast<std::size_t>(j)] * point;
        const Eigen::Vector2d shown = shown_at(truth.lenses[0], seen.hnormalized()) +
                                      kNoise * Eigen::Vector2d(normal(random), normal(random));
        if (shown.x() < 0 || shown.y() < 0 || shown.x() > 639 || shown.y() > 479) continue;
        given.sightings.push_back({anchor, j, shown, Eigen::Matrix2d::Identity() / kNoise});
      }
    }
  }
  return given;
}

// The adjustment alone ends near where it begins, beside a distortion that is none.
TEST(BundleTrials, FindsAFocalLengthThatIsFarFromTheGivenOne) {
  for (const double longer : {2.1, 1.6, 0.6}) {
    const auto [found, model, guesses, nearer] = freed(ground_from_above(5, longer));
    EXPECT_EQ(model, CameraModel::simple_pinhole) << longer;
    EXPECT_FALSE(guesses) << longer;
    EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 0.03 * kFocal) << longer;
    if (longer > 2) {  // the others the adjustment itself finds
      EXPECT_NEAR(nearer, -std::log(longer), 0.05);
    }
  }
}

// Of a lens as drones have it. Without its distortion no focal length explains the matches.
TEST(BundleTrials, FindsAFocalLengthThatIsFarOffBesideADistortion) {
  for (const double k1 : {-0.1, 0.1}) {
    for (const double longer : {2.1, 1.6}) {
      const auto [found, model, guesses, nearer] = freed(ground_from_above(5, longer, k1));
      EXPECT_EQ(model, CameraModel::simple_radial) << longer << ' ' << k1;
      EXPECT_FALSE(guesses) << longer << ' ' << k1;
      EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 0.03 * kFocal) << longer << ' ' << k1;
      EXPECT_NEAR(found.lenses[0].distortion[0], k1, 0.02) << longer << ' ' << k1;
      if (longer > 2) {  // else the adjustment itself may find it
        EXPECT_NEAR(nearer, -std::log(longer), 0.05) << k1;
      }
    }
  }
}

// What a distortion does to pixels the matches tell all the same.
TEST(BundleTrials, TheGroundFromStraightAboveTellsTheDistortion) {
  for (const double longer : {2.1, 1.6}) {
    const auto [found, model, guesses, nearer] = freed(ground_from_above(0, longer, -0.1));
    EXPECT_TRUE(guesses) << longer;
    EXPECT_EQ(model, CameraModel::simple_radial) << longer;
    EXPECT_EQ(found.lenses[0].focal, Eigen::Vector2d::Constant(longer * kFocal));
    EXPECT_NEAR(found.lenses[0].distortion[0] / (longer * longer), -0.1, 0.02) << longer;
  }
}

// Without any tilt no focal length is told, however long it seems to be.
TEST(BundleTrials, TheGroundFromStraightAboveTellsNoFocalLength) {
  for (const double longer : {2.1, 0.6}) {
    const auto [found, model, guesses, nearer] = freed(ground_from_above(0, longer));
    EXPECT_TRUE(guesses) << longer;
    EXPECT_EQ(found.lenses[0].focal, Eigen::Vector2d::Constant(longer * kFocal));
  }
}

/// Without its distortion the first lens looks like one of 1310 pixels, the second like one of 3209, so that
/// the focal length leaves what it was given by, and was held there: 945 and 805 pixels.
TEST(BundleTrials, FindsTheFocalLengthBesideAStrongDistortion) {
  for (const Pan& pan :
       {Pan{-0.2, 0.03, 0.03, 1.35}, Pan{-0.3, 0.03, 0.01, 1.15}, Pan{-0.3, 0.015, 0.03, 1.35}}) {
    const auto [found, model, guesses, nearer] = freed(pan);
    EXPECT_EQ(model, CameraModel::simple_radial);
    EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 5) << pan.k1 << " " << pan.longer;
    EXPECT_NEAR(found.lenses[0].distortion[0], pan.k1, 0.01);
    EXPECT_TRUE(found.lens_free[0].focal);
    EXPECT_FALSE(guesses);
  }
}

/// As of an action camera.
TEST(BundleTrials, FreesK2WhereItPays) {
  const auto [found, model, guesses, nearer] = freed({.k1 = -0.24, .turn = 0.03, .move = 0.05, .k2 = 0.05});
  EXPECT_EQ(model, CameraModel::radial);
  EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 3);
  EXPECT_NEAR(found.lenses[0].distortion[0], -0.24, 0.005);
  EXPECT_NEAR(found.lenses[0].distortion[1], 0.05, 0.01);
}

TEST(BundleTrials, ADistortionPaysWhereItIsAndNowhereElse) {
  for (const double k1 : {-0.2, 0.0}) {
    Bundle found = given_bundle({.k1 = k1});
    std::vector<Sighting> held_out = hold_out(found.sightings);
    BundleTrials trials(found, {}, {}, kFrames, kSilent);
    trials.hold_out(std::move(held_out));
    trials.adjust(found, {2, 30, 1e-5});
    const Bundle plain = found;
    for (LensFreedom& free : found.lens_free) free.k1 = true;
    found.lenses[0].distortion[0] = k1 - 0.01;
    trials.adjust(found, {2, 30, 1e-5});
    const Bundle before = found;
    EXPECT_EQ(trials.k1_pays(found, plain, trials.decisions()), k1 != 0);
    EXPECT_EQ(found.lenses[0].distortion, before.lenses[0].distortion);
    EXPECT_EQ(found.lenses[0].focal, before.lenses[0].focal);
    EXPECT_TRUE(found.lens_free[0].k1);
    EXPECT_TRUE(trials.believes_depth());
  }
}

TEST(BundleTrials, WithoutASuspicionNoLensIsTaken) {
  Bundle found = given_bundle({});
  std::vector<Sighting> held_out = hold_out(found.sightings);
  BundleTrials trials(found, {}, {}, kFrames, kSilent);
  trials.hold_out(std::move(held_out));
  trials.adjust(found, {});
  trials.free_what_pays(found);
  EXPECT_FALSE(trials.suspects_lens());
  EXPECT_EQ(trials.model(), CameraModel::simple_pinhole);
}

// Focal length, poses and depths make up for k1, so that the matches that are held out are hardly nearer.
TEST(BundleTrials, ADistortionThatTheMatchesTellIsTakenThoughItDoesNotPay) {
  for (const double k1 : {-0.12, 0.0}) {
    Bundle found = given_bundle({.k1 = k1, .turn = 0.03, .move = 0.1, .noise = 2});
    std::vector<Sighting> held_out = hold_out(found.sightings);
    BundleTrials trials(found, {}, {}, kFrames, kSilent);
    trials.hold_out(std::move(held_out));
    trials.adjust(found, {});
    const Bundle plain = found;
    const BundleTrials::Decisions decisions = trials.decisions();
    trials.free_what_pays(found);
    EXPECT_FALSE(trials.has_freed_k1()) << k1;
    ASSERT_EQ(trials.suspects_lens(), k1 != 0);
    if (k1 == 0) continue;
    EXPECT_GT(std::abs(found.lenses[0].focal.x() - kFocal), 0.1 * kFocal);
    trials.take_suspected_lens(found);
    EXPECT_TRUE(trials.k1_pays(found, plain, decisions));
    EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 5);
    EXPECT_NEAR(found.lenses[0].distortion[0], k1, 0.005);
  }
}

TEST(BundleTrials, ADeviationTellsHowFarK1Is) {
  double before = 0;
  for (const double noise : {0.25, 0.5, 1.0}) {
    Bundle found = given_bundle({.k1 = -0.12, .turn = 0.03, .move = 0.1, .noise = noise, .depth_error = 0});
    AdjustOptions options;
    options.model = CameraModel::simple_radial;
    found.lens_free[0].k1 = true;
    BundleTrials(found, {}, options, kFrames, kSilent).solve(found, kFully);
    const double deviation =
        lens_deviations(found, 1, std::numeric_limits<std::size_t>::max(), kSilent).at(0).k1;
    EXPECT_LT(std::abs(found.lenses[0].distortion[0] + 0.12), 3 * deviation) << noise;
    if (before > 0) {
      EXPECT_NEAR(deviation / before, 2, 0.2) << noise;
    }
    before = deviation;
    found.lens_free[0].k1 = false;
    EXPECT_EQ(lens_deviations(found, 1, std::numeric_limits<std::size_t>::max(), kSilent).at(0).k1, 0);
  }
}

TEST(BundleTrials, FreesNothingOfALensWithoutDistortion) {
  for (const double longer : {0.8, 1.0, 1.35}) {
    for (const double depth_error : {0.0, 0.15}) {
      const auto [found, model, guesses, nearer] = freed({.longer = longer, .depth_error = depth_error});
      EXPECT_EQ(model, CameraModel::simple_pinhole) << longer;
      EXPECT_FALSE(guesses) << longer;
      EXPECT_TRUE(found.lenses[0].distortion.isZero(0));
      EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 5);
    }
  }
}

TEST(BundleTrials, AModelThatIsAskedForStays) {
  AdjustOptions options;
  options.model = CameraModel::simple_pinhole;
  const auto [found, model, guesses, nearer] = freed({.k1 = -0.2, .turn = 0.03, .move = 0.03}, options);
  EXPECT_EQ(model, CameraModel::simple_pinhole);
  EXPECT_FALSE(guesses);
  EXPECT_TRUE(found.lenses[0].distortion.isZero(0));
}

// As with --refine poses: what holds the world's place then is weak.
TEST(BundleTrials, AFocalLengthIsToldWhereAllPosesAreFree) {
  for (const double longer : {0.9, 1.0, 1.1}) {
    Bundle found = given_bundle({.turn = 0.03, .move = 0.1, .longer = longer});
    found.free[0] = true;
    std::vector<Sighting> held_out = hold_out(found.sightings);
    BundleTrials trials(found, {}, {}, kFrames, kSilent);
    trials.hold_out(std::move(held_out));
    trials.adjust(found, {4, 15, 1e-4});
    const double deviation =
        lens_deviations(found, 1, std::numeric_limits<std::size_t>::max(), {}).at(0).focal;
    EXPECT_GT(deviation, 0) << longer;
    EXPECT_LT(deviation, 0.002) << longer;
    trials.judge_focals(found);
    EXPECT_FALSE(trials.holds_focal(found.lens_free)) << longer;
    EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 5) << longer;
  }
}

// Of the first passes, whose matches are few and coarse, it left what a network can have missed by.
TEST(BundleTrials, AFocalLengthThatWasHeldIsFreedWhereTheLastMatchesTellIt) {
  Bundle found = given_bundle({.turn = 0.03, .move = 0.1, .longer = 1.35});
  std::vector<Sighting> held_out = hold_out(found.sightings);
  BundleTrials trials(found, {}, {}, kFrames, kSilent);
  trials.hold_out(std::move(held_out));
  found.lens_free[0].focal = false;
  trials.adjust(found, {4, 15, 1e-4});
  EXPECT_EQ(found.lenses[0].focal.x(), 1.35 * kFocal);
  EXPECT_TRUE(trials.holds_focal(found.lens_free));
  trials.judge_focals(found);
  EXPECT_NEAR(found.lenses[0].focal.x(), kFocal, 5);
  EXPECT_FALSE(trials.holds_focal(found.lens_free));
}

// What a wall that is seen straight on shows, every focal length shows, with other distances.
TEST(BundleTrials, AFocalLengthThatTheMatchesDoNotTellStays) {
  for (const double longer : {0.8, 1.35}) {
    const Pan pan{.turn = 0, .longer = longer, .flat = true};
    const auto [found, model, guesses, nearer] = freed(pan);
    EXPECT_TRUE(guesses) << longer;
    EXPECT_EQ(model, CameraModel::simple_pinhole);
    EXPECT_EQ(found.lenses[0].focal, Eigen::Vector2d::Constant(longer * kFocal));
    for (std::size_t i = 0; i < kFrames; ++i)
      EXPECT_LT(Eigen::AngleAxisd(found.poses[i].linear()).angle(), 2e-3) << longer << ' ' << i;

    AdjustOptions known;
    known.intrinsics = Known::nearly;
    EXPECT_FALSE(freed(pan, known).guesses);
  }
}

}  // namespace
