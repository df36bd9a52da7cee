// How far camera poses are from true ones.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>
#include <random>

#include "app/eval/trajectory_error.h"

namespace vggt {
namespace {

Eigen::Matrix3d turn(double degrees, const Eigen::Vector3d& axis) {
  return Eigen::AngleAxisd(degrees * std::numbers::pi / 180, axis.normalized()).toRotationMatrix();
}

/// A camera that stands at `center`, its axes turned from the world's.
Camera camera(const Eigen::Matrix3d& rotation, const Eigen::Vector3d& center) {
  Camera result;
  result.cam_from_world.linear() = rotation.transpose();
  result.cam_from_world.translation() = -(rotation.transpose() * center);
  return result;
}

Eigen::Matrix3d rotation_of(const Camera& camera) {
  return camera.cam_from_world.linear().transpose();
}

/// Random true cameras, and the same ones as the result.
std::vector<CameraPair> random_cameras(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<CameraPair> cameras;
  for (int i = 0; i < count; ++i) {
    const Eigen::Quaterniond q(normal(random), normal(random), normal(random), normal(random));
    Eigen::Vector3d center;
    for (double& value : center) value = normal(random);
    const Camera one = camera(q.normalized().toRotationMatrix(), center);
    cameras.push_back({one, one});
  }
  return cameras;
}

/// The result's cameras in another world.
void move_result(std::vector<CameraPair>& cameras, double scale, const Eigen::Matrix3d& rotation,
                 const Eigen::Vector3d& shift) {
  for (CameraPair& pair : cameras) {
    pair.result =
        camera(rotation * rotation_of(pair.result), scale * (rotation * pair.result.center()) + shift);
  }
}

TEST(TrajectoryError, IsZeroUpToASimilarity) {
  std::vector<CameraPair> cameras = random_cameras(7, 1);
  move_result(cameras, 0.25, turn(77, {1, 2, -1}), {3, -5, 9});
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_NEAR(error.scale, 4, 1e-9);
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.median_rotation, 0, 1e-5);
  EXPECT_NEAR(error.median_translation_direction, 0, 1e-5);
  EXPECT_EQ(error.auc.at_5, 1);
  EXPECT_EQ(error.auc.at_30, 1);
}

TEST(TrajectoryError, CountsTheHistogramAsTheReference) {
  // Two cameras, the first turned 7.5 degrees about its own centre: the relative rotation is 7.5 degrees off
  // and the direction to the second, seen from the first, as well (about an axis across it).
  const Eigen::Matrix3d none = Eigen::Matrix3d::Identity();
  const std::vector<CameraPair> cameras = {{camera(turn(7.5, {0, 0, 1}), {0, 0, 0}), camera(none, {0, 0, 0})},
                                           {camera(none, {1, 0, 0}), camera(none, {1, 0, 0})}};
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_NEAR(error.median_rotation, 7.5, 1e-9);
  EXPECT_NEAR(error.median_translation_direction, 7.5, 1e-9);
  EXPECT_EQ(error.auc.at_5, 0);
  EXPECT_NEAR(error.auc.at_15, 8.0 / 15, 1e-12);   // bins 7 to 14 of 15
  EXPECT_NEAR(error.auc.at_30, 23.0 / 30, 1e-12);  // bins 7 to 29 of 30
  EXPECT_NEAR(error.ate_rmse, 0, 1e-12);
}

TEST(TrajectoryError, EqualsNumpy) {
  // Seven cameras on a helix, the result off by known turns and shifts. The expected values are numpy's:
  // np.histogram(max errors, bins=limit, range=(0, limit)), cumulated and averaged; Umeyama by np.linalg.svd.
  std::vector<CameraPair> cameras;
  for (int i = 0; i < 7; ++i) {
    const Eigen::Matrix3d truth = turn(20 * i, {0, 1, 0});
    const Eigen::Vector3d center(std::cos(0.5 * i), 0.1 * i, std::sin(0.5 * i));
    const Eigen::Vector3d off(0.05 * std::sin(3 * i), 0.04 * std::cos(5 * i), 0.06 * std::sin(7 * i));
    cameras.push_back({camera(truth * turn(2.3 * i, {1, 0, 1}), center + off), camera(truth, center)});
  }
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_NEAR(error.scale, 0.980094534130515, 1e-9);
  EXPECT_NEAR(error.ate_rmse, 0.0434630238589488, 1e-9);
  EXPECT_NEAR(error.median_rotation, 7.63038195851114, 1e-6);
  EXPECT_NEAR(error.median_translation_direction, 3.972294767973, 1e-6);
  EXPECT_NEAR(error.auc.at_5, 0.0761904761904762, 1e-12);
  EXPECT_NEAR(error.auc.at_15, 0.441269841269841, 1e-12);
  EXPECT_NEAR(error.auc.at_30, 0.720634920634921, 1e-12);
}

TEST(TrajectoryError, DirectionsAreSigned) {
  const Eigen::Matrix3d none = Eigen::Matrix3d::Identity();
  const std::vector<CameraPair> cameras = {{camera(none, {0, 0, 0}), camera(none, {0, 0, 0})},
                                           {camera(none, {-1, 0, 0}), camera(none, {1, 0, 0})}};
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_NEAR(error.median_translation_direction, 180, 1e-9);
  EXPECT_EQ(error.auc.at_30, 0);
  EXPECT_EQ(error.auc_either_sign.at_5, 1);
}

TEST(TrajectoryError, StandingStillIsNoDirection) {
  const Camera here;
  const Camera there = camera(Eigen::Matrix3d::Identity(), {1, 0, 0});
  EXPECT_EQ(trajectory_error({{{here, here}, {there, here}}}, {}).median_translation_direction, 0);
  EXPECT_EQ(trajectory_error({{{here, here}, {here, there}}}, {}).median_translation_direction, 90);
}

TEST(TrajectoryError, StandingStillFarFromTheOriginIsNoDirection) {
  std::vector<CameraPair> cameras;
  for (int i = 0; i < 8; ++i) {
    const Eigen::Matrix3d facing = turn(17 * i, {0, 1, 0});
    const Eigen::Vector3d place(1.234, 5.67, -8.9);
    const Eigen::Vector3d here = -(facing * (facing.transpose() * -place));  // as COLMAP's files tell it
    cameras.push_back({camera(facing, place + i * Eigen::Vector3d(1, 0, 2)), camera(facing, here)});
  }
  EXPECT_EQ(trajectory_error({cameras}, {}).median_translation_direction, 0);
  EXPECT_EQ(trajectory_error({cameras}, {}).scale, 0);
  for (CameraPair& pair : cameras) std::swap(pair.result, pair.truth);
  EXPECT_EQ(trajectory_error({cameras}, {}).scale, 1);
  EXPECT_EQ(trajectory_error({cameras}, {}).median_translation_direction, 90);
}

TEST(TrajectoryError, PositionsTooLargeToMultiplyAreRefused) {
  const Eigen::Matrix3d none = Eigen::Matrix3d::Identity();
  const std::vector<CameraPair> cameras = {{camera(none, {0, 0, 0}), camera(none, {0, 0, 0})},
                                           {camera(none, {1e200, 0, 0}), camera(none, {1e200, 0, 0})}};
  EXPECT_THROW(trajectory_error({cameras}, {}), std::invalid_argument);
}

TEST(TrajectoryError, ScenesAreAlignedEachByItselfAndCountedTogether) {
  std::vector<CameraPair> one = random_cameras(3, 4), other = random_cameras(3, 5);
  Camera& wrong = other[0].result;  // two of the six pairs of frames are wrong with it
  wrong = camera(rotation_of(wrong) * turn(40, {0, 0, 1}), wrong.center());
  move_result(one, 0.5, turn(30, {0, 1, 0}), {1, 1, 1});
  move_result(other, 2, turn(-80, {1, 0, 0}), {0, 5, 0});
  const TrajectoryError error = trajectory_error({one, other}, {});
  EXPECT_NEAR(error.scale, (2 + 0.5) / 2, 1e-9);
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.auc.at_30, 4.0 / 6, 1e-12);
}

// Wrong poses drag least squares along; a minority of them is told and left out.
TEST(Align, AMinorityOfWrongPosesIsLeftOut) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const std::size_t count : {5U, 9U, 60U}) {
    std::vector<CameraPair> pairs;
    Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
    similarity.linear() =
        2.5 * Eigen::AngleAxisd(0.7, Eigen::Vector3d(1, -2, 1).normalized()).toRotationMatrix();
    similarity.translation() << 3, -4, 5;
    for (std::size_t i = 0; i < count; ++i) {
      CameraPair pair;
      const Eigen::Vector3d centre(normal(random), normal(random), normal(random));
      const Eigen::Vector3d noise(normal(random), normal(random), normal(random));
      pair.result.cam_from_world.translation() = -centre;
      pair.truth.cam_from_world.linear() = similarity.linear().transpose() / 2.5;
      pair.truth.cam_from_world.translation() =
          -(pair.truth.cam_from_world.linear() * (similarity * centre + 0.002 * noise));
      pairs.push_back(pair);
    }
    const RobustAlignment clean = align_robustly(pairs);
    EXPECT_EQ(std::ranges::count(clean.fits, false), 0) << count;
    EXPECT_EQ(clean.truth_from_result.matrix(), align(pairs).matrix()) << count;

    const std::size_t wrong = (count - 1) / 2 - (count < 9 ? 1 : 0);
    for (std::size_t i = 0; i < wrong; ++i) {
      pairs[2 * i].truth.cam_from_world.translation() +=
          Eigen::Vector3d(10 + normal(random), 10 * normal(random), 10 * normal(random));
    }
    const RobustAlignment found = align_robustly(pairs);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(found.fits[i], i % 2 == 1 || i >= 2 * wrong) << count << ' ' << i;
    EXPECT_LT((found.truth_from_result.matrix() - similarity.matrix()).norm(), 0.02) << count;
    EXPECT_GT((align(pairs).matrix() - similarity.matrix()).norm(), 0.2) << count;
  }
}

TEST(Align, OfFourPosesNoneIsLeftOut) {
  std::vector<CameraPair> pairs(4);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto x = static_cast<double>(i);
    pairs[i].result.cam_from_world.translation() << x, x * x, 0;
    pairs[i].truth.cam_from_world.translation() << x, x * x, i == 2 ? 50 : 0;
  }
  const RobustAlignment found = align_robustly(pairs);
  EXPECT_EQ(std::ranges::count(found.fits, false), 0);
  EXPECT_EQ(found.truth_from_result.matrix(), align(pairs).matrix());
}

TEST(Align, RotationsDecideWhereCentresLieOnALine) {
  for (const int count : {2, 5}) {
    std::vector<CameraPair> cameras = random_cameras(count, 6);
    for (int i = 0; i < count; ++i) {
      CameraPair& pair = cameras[static_cast<std::size_t>(i)];
      pair.truth =
          camera(rotation_of(pair.truth), Eigen::Vector3d(1, 2, 3) + i * Eigen::Vector3d(0.3, -1, 0.5));
      pair.result = pair.truth;
    }
    const Eigen::Matrix3d rotation = turn(100, {1, -2, 0.5});
    move_result(cameras, 0.2, rotation, {1, 2, 3});
    const Eigen::Matrix3d found = align(cameras).linear();
    EXPECT_TRUE(found.isApprox(5 * rotation.transpose(), 1e-9)) << found;
  }
}

TEST(Align, CentresOnALongThinCurveDecideThemselves) {
  std::vector<CameraPair> cameras;
  for (int i = 0; i < 60; ++i) {
    const double x = 100 * i / 59.0;
    const Eigen::Vector3d center(x, 1.5 * std::sin(x / 15), 0.15 * std::cos(x / 9));
    cameras.push_back({camera(turn(20, {1, 0, 0}), center), camera(Eigen::Matrix3d::Identity(), center)});
  }
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.scale, 1, 1e-9);
}

double degrees_off(const std::vector<CameraPair>& cameras, const Eigen::Affine3d& similarity,
                   const Eigen::Matrix3d& rotation) {
  const Eigen::Matrix3d found = similarity.linear() / std::cbrt(similarity.linear().determinant());
  EXPECT_TRUE(similarity.matrix().allFinite()) << cameras.size();
  return Eigen::AngleAxisd(Eigen::Matrix3d(found * rotation)).angle() * 180 / std::numbers::pi;
}

/// Cameras along a nearly straight path, whose true poses are off by so much of a unit and so many degrees.
std::vector<CameraPair> along_a_path(int count, double off, double degrees, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<CameraPair> cameras;
  for (int i = 0; i < count; ++i) {
    const Eigen::Vector3d center(0.3 * i, 0.01 * std::sin(i), 0.005 * i * i / count),
        noise(normal(random), normal(random), normal(random)), axis(normal(random), normal(random), 1);
    const Eigen::Matrix3d facing = turn(3 * i, {0.2, 1, 0});
    cameras.push_back({camera(facing, center),
                       camera(turn(degrees * normal(random), axis) * facing, center + off * noise)});
  }
  return cameras;
}

// Roll about a nearly straight path is what the noise of the centres makes it; the rotations tell it.
TEST(AlignWithTurns, RotationsTellWhatNearlyStraightCentresTellBadly) {
  const Eigen::Matrix3d rotation = turn(100, {1, -2, 0.5});
  for (const int count : {3, 4, 5, 20}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      std::vector<CameraPair> cameras = along_a_path(count, 0.01, 0.1, seed);
      move_result(cameras, 0.2, rotation, {1, 2, 3});
      const Eigen::Affine3d found = align_with_turns(cameras);
      EXPECT_LT(degrees_off(cameras, found, rotation), 0.3) << count << ' ' << seed;
      EXPECT_NEAR(std::cbrt(found.linear().determinant()), 5, 0.5) << count << ' ' << seed;
      EXPECT_LT(median_turn(cameras, found), 0.01) << count << ' ' << seed;
    }
  }
  std::vector<CameraPair> cameras = along_a_path(5, 0.01, 0.1, 1);
  EXPECT_GT(degrees_off(cameras, align(cameras), Eigen::Matrix3d::Identity()), 5);
}

// Centres that are exact beside rotations that are not decide.
TEST(AlignWithTurns, EachCountsAsItIsOff) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::vector<CameraPair> cameras = random_cameras(12, seed);
    for (CameraPair& pair : cameras)
      pair.truth =
          camera(turn(4 * std::sin(pair.truth.center().x() * 9), {1, 2, 3}) * rotation_of(pair.truth),
                 pair.truth.center());
    EXPECT_LT(degrees_off(cameras, align_with_turns(cameras), Eigen::Matrix3d::Identity()), 0.2) << seed;
  }
}

// Positions by GPS have no rotations; those of another convention are as wrong everywhere.
TEST(AlignWithTurns, RotationsThatCannotBeTrueDoNotCount) {
  const Eigen::Matrix3d rotation = turn(50, {1, -2, 0.5});
  std::vector<CameraPair> cameras = random_cameras(12, 4);
  for (CameraPair& pair : cameras) pair.truth = camera(Eigen::Matrix3d::Identity(), pair.truth.center());
  EXPECT_EQ(align_with_turns(cameras).matrix(), align(cameras).matrix());
  EXPECT_GT(median_turn(cameras, align(cameras)), 1);

  std::vector<CameraPair> alike = random_cameras(12, 5);
  for (CameraPair& pair : alike) {
    pair.result = camera(turn(pair.truth.center().x(), {0, 1, 0}), pair.truth.center());
    pair.truth = camera(rotation_of(pair.result) * turn(180, {1, 0, 0}), pair.truth.center());
  }
  move_result(alike, 2, rotation, {1, 2, 3});
  EXPECT_LT(degrees_off(alike, align_with_turns(alike), rotation), 1e-6);
}

// The usual mistake, R^T·t for -R^T·t, turns the signs of all positions: no reason to mirror the scene.
TEST(AlignWithTurns, NeverMirrors) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const double flat : {1.0, 0.0}) {
      std::vector<CameraPair> cameras = seed % 2 ? random_cameras(8, seed) : along_a_path(8, 0.02, 0.1, seed);
      for (CameraPair& pair : cameras) {
        const Eigen::Vector3d at = pair.truth.center();
        pair.truth = camera(rotation_of(pair.truth), -Eigen::Vector3d(at.x(), at.y(), flat * at.z()));
      }
      EXPECT_GT(align_with_turns(cameras).linear().determinant(), 0) << seed << ' ' << flat;
    }
  }
}

TEST(Align, CentresInOnePlaceGiveFiniteNumbers) {
  std::vector<CameraPair> cameras = random_cameras(4, 3);
  for (CameraPair& pair : cameras) pair.result.cam_from_world.translation().setZero();
  const TrajectoryError error = trajectory_error({cameras}, {});
  EXPECT_TRUE(std::isfinite(error.ate_rmse));
  EXPECT_EQ(error.scale, 1);
  EXPECT_GT(error.ate_rmse, 0.1);
}

}  // namespace
}  // namespace vggt
