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

Eigen::Matrix4d pose(const Eigen::Matrix3d& rotation, const Eigen::Vector3d& center) {
  Eigen::Matrix4d result = Eigen::Matrix4d::Identity();
  result.topLeftCorner<3, 3>() = rotation;
  result.topRightCorner<3, 1>() = center;
  return result;
}

/// Random true poses, and the same ones as the result.
std::vector<PosePair> random_poses(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<PosePair> poses;
  for (int i = 0; i < count; ++i) {
    const Eigen::Quaterniond q(normal(random), normal(random), normal(random), normal(random));
    Eigen::Vector3d center;
    for (double& value : center) value = normal(random);
    const Eigen::Matrix4d one = pose(q.normalized().toRotationMatrix(), center);
    poses.push_back({one, one});
  }
  return poses;
}

/// The result's poses in another world.
void move_result(std::vector<PosePair>& poses, double scale, const Eigen::Matrix3d& rotation,
                 const Eigen::Vector3d& shift) {
  for (PosePair& pair : poses) {
    const Eigen::Matrix4d old = pair.result;
    pair.result =
        pose(rotation * old.topLeftCorner<3, 3>(), scale * (rotation * old.topRightCorner<3, 1>()) + shift);
  }
}

TEST(TrajectoryError, IsZeroUpToASimilarity) {
  std::vector<PosePair> poses = random_poses(7, 1);
  move_result(poses, 0.25, turn(77, {1, 2, -1}), {3, -5, 9});
  const TrajectoryError error = trajectory_error({poses});
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
  const std::vector<PosePair> poses = {{pose(turn(7.5, {0, 0, 1}), {0, 0, 0}), pose(none, {0, 0, 0})},
                                       {pose(none, {1, 0, 0}), pose(none, {1, 0, 0})}};
  const TrajectoryError error = trajectory_error({poses});
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
  std::vector<PosePair> poses;
  for (int i = 0; i < 7; ++i) {
    const Eigen::Matrix3d truth = turn(20 * i, {0, 1, 0});
    const Eigen::Vector3d center(std::cos(0.5 * i), 0.1 * i, std::sin(0.5 * i));
    const Eigen::Vector3d off(0.05 * std::sin(3 * i), 0.04 * std::cos(5 * i), 0.06 * std::sin(7 * i));
    poses.push_back({pose(truth * turn(2.3 * i, {1, 0, 1}), center + off), pose(truth, center)});
  }
  const TrajectoryError error = trajectory_error({poses});
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
  const std::vector<PosePair> poses = {{pose(none, {0, 0, 0}), pose(none, {0, 0, 0})},
                                       {pose(none, {-1, 0, 0}), pose(none, {1, 0, 0})}};
  const TrajectoryError error = trajectory_error({poses});
  EXPECT_NEAR(error.median_translation_direction, 180, 1e-9);
  EXPECT_EQ(error.auc.at_30, 0);
  EXPECT_EQ(error.auc_either_sign.at_5, 1);
}

TEST(TrajectoryError, StandingStillIsNoDirection) {
  const Eigen::Matrix4d here = Eigen::Matrix4d::Identity();
  const Eigen::Matrix4d there = pose(Eigen::Matrix3d::Identity(), {1, 0, 0});
  EXPECT_EQ(trajectory_error({{{here, here}, {there, here}}}).median_translation_direction, 0);
  EXPECT_EQ(trajectory_error({{{here, here}, {here, there}}}).median_translation_direction, 90);
}

TEST(TrajectoryError, StandingStillFarFromTheOriginIsNoDirection) {
  std::vector<PosePair> poses;
  for (int i = 0; i < 8; ++i) {
    const Eigen::Matrix3d facing = turn(17 * i, {0, 1, 0});
    const Eigen::Vector3d place(1.234, 5.67, -8.9);
    const Eigen::Vector3d here = -(facing * (facing.transpose() * -place));  // as COLMAP's files tell it
    poses.push_back({pose(facing, place + i * Eigen::Vector3d(1, 0, 2)), pose(facing, here)});
  }
  EXPECT_EQ(trajectory_error({poses}).median_translation_direction, 0);
  EXPECT_EQ(trajectory_error({poses}).scale, 0);
  for (PosePair& pair : poses) std::swap(pair.result, pair.truth);
  EXPECT_EQ(trajectory_error({poses}).scale, 1);
  EXPECT_EQ(trajectory_error({poses}).median_translation_direction, 90);
}

TEST(TrajectoryError, PositionsTooLargeToMultiplyAreRefused) {
  const Eigen::Matrix3d none = Eigen::Matrix3d::Identity();
  const std::vector<PosePair> poses = {{pose(none, {0, 0, 0}), pose(none, {0, 0, 0})},
                                       {pose(none, {1e200, 0, 0}), pose(none, {1e200, 0, 0})}};
  EXPECT_THROW(trajectory_error({poses}), std::invalid_argument);
}

TEST(TrajectoryError, ScenesAreAlignedEachByItselfAndCountedTogether) {
  std::vector<PosePair> one = random_poses(3, 4), other = random_poses(3, 5);
  other[0].result.topLeftCorner<3, 3>() *= turn(40, {0, 0, 1});  // two of the six pairs are wrong
  move_result(one, 0.5, turn(30, {0, 1, 0}), {1, 1, 1});
  move_result(other, 2, turn(-80, {1, 0, 0}), {0, 5, 0});
  const TrajectoryError error = trajectory_error({one, other});
  EXPECT_NEAR(error.scale, (2 + 0.5) / 2, 1e-9);
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.auc.at_30, 4.0 / 6, 1e-12);
}

TEST(Align, RotationsDecideWhereCentresLieOnALine) {
  for (const int count : {2, 5}) {
    std::vector<PosePair> poses = random_poses(count, 6);
    for (int i = 0; i < count; ++i) {
      PosePair& pair = poses[static_cast<std::size_t>(i)];
      pair.truth.topRightCorner<3, 1>() = Eigen::Vector3d(1, 2, 3) + i * Eigen::Vector3d(0.3, -1, 0.5);
      pair.result = pair.truth;
    }
    const Eigen::Matrix3d rotation = turn(100, {1, -2, 0.5});
    move_result(poses, 0.2, rotation, {1, 2, 3});
    const Eigen::Matrix3d found = align(poses).topLeftCorner<3, 3>();
    EXPECT_TRUE(found.isApprox(5 * rotation.transpose(), 1e-9)) << found;
  }
}

TEST(Align, CentresOnALongThinCurveDecideThemselves) {
  std::vector<PosePair> poses;
  for (int i = 0; i < 60; ++i) {
    const double x = 100 * i / 59.0;
    const Eigen::Vector3d center(x, 1.5 * std::sin(x / 15), 0.15 * std::cos(x / 9));
    poses.push_back({pose(turn(20, {1, 0, 0}), center), pose(Eigen::Matrix3d::Identity(), center)});
  }
  const TrajectoryError error = trajectory_error({poses});
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.scale, 1, 1e-9);
}

TEST(Align, CentresInOnePlaceGiveFiniteNumbers) {
  std::vector<PosePair> poses = random_poses(4, 3);
  for (PosePair& pair : poses) pair.result.topRightCorner<3, 1>().setZero();
  const TrajectoryError error = trajectory_error({poses});
  EXPECT_TRUE(std::isfinite(error.ate_rmse));
  EXPECT_EQ(error.scale, 1);
  EXPECT_GT(error.ate_rmse, 0.1);
}

}  // namespace
}  // namespace vggt
