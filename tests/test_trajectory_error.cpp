// How far camera poses are from true ones.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

#include "app/trajectory_error.h"

namespace vggt {
namespace {

Eigen::Matrix3d turn(double degrees, const Eigen::Vector3d& axis) {
  return Eigen::AngleAxisd(degrees * std::numbers::pi / 180, axis.normalized()).toRotationMatrix();
}

std::vector<TumPose> random_poses(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<TumPose> poses;
  for (int i = 0; i < count; ++i) {
    TumPose pose{i * 0.5, Eigen::Matrix4d::Identity()};
    pose.world_from_cam.topLeftCorner<3, 3>() =
        Eigen::Quaterniond(normal(random), normal(random), normal(random), normal(random))
            .normalized()
            .toRotationMatrix();
    for (int k = 0; k < 3; ++k) pose.world_from_cam(k, 3) = normal(random);
    poses.push_back(pose);
  }
  return poses;
}

TEST(TrajectoryError, IsZeroUpToASimilarity) {
  const std::vector<TumPose> truth = random_poses(7, 1);
  const Eigen::Matrix3d rotation = turn(77, {1, 2, -1});
  std::vector<TumPose> poses = truth;
  for (TumPose& pose : poses) {
    pose.world_from_cam.topLeftCorner<3, 3>() = rotation * pose.world_from_cam.topLeftCorner<3, 3>();
    pose.world_from_cam.topRightCorner<3, 1>() =
        0.25 * (rotation * pose.world_from_cam.topRightCorner<3, 1>()) + Eigen::Vector3d(3, -5, 9);
  }
  const TrajectoryError error = trajectory_error(poses, truth);
  EXPECT_EQ(error.matched, 7);
  EXPECT_NEAR(error.scale, 4, 1e-9);
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_NEAR(error.median_rotation, 0, 1e-5);
  EXPECT_NEAR(error.median_translation_direction, 0, 1e-5);
  EXPECT_EQ(error.auc_5, 1);
  EXPECT_EQ(error.auc_30, 1);
}

TEST(TrajectoryError, CountsTheHistogramAsTheReference) {
  // Two cameras, the second turned 7.5 degrees about its own centre: the relative rotation is 7.5 degrees off
  // and the direction from the first to the second, seen from the second, as well (about an axis across it).
  std::vector<TumPose> truth = {{0, Eigen::Matrix4d::Identity()}, {1, Eigen::Matrix4d::Identity()}};
  truth[1].world_from_cam(0, 3) = 1;
  std::vector<TumPose> poses = truth;
  poses[1].world_from_cam.topLeftCorner<3, 3>() = turn(7.5, {0, 0, 1});
  const TrajectoryError error = trajectory_error(poses, truth);
  EXPECT_NEAR(error.median_rotation, 7.5, 1e-9);
  EXPECT_NEAR(error.median_translation_direction, 7.5, 1e-9);
  EXPECT_EQ(error.auc_5, 0);
  EXPECT_NEAR(error.auc_15, 8.0 / 15, 1e-12);   // bins 7 to 14 of 15
  EXPECT_NEAR(error.auc_30, 23.0 / 30, 1e-12);  // bins 7 to 29 of 30
  EXPECT_NEAR(error.ate_rmse, 0, 1e-12);
}

TEST(TrajectoryError, OppositeDirectionsCountAsEqual) {
  std::vector<TumPose> truth = {{0, Eigen::Matrix4d::Identity()}, {1, Eigen::Matrix4d::Identity()}};
  truth[1].world_from_cam(0, 3) = 1;
  std::vector<TumPose> poses = truth;
  poses[1].world_from_cam(0, 3) = -1;
  EXPECT_NEAR(trajectory_error(poses, truth).median_translation_direction, 0, 1e-9);
}

TEST(TrajectoryError, MatchesByTimeInAnyOrder) {
  const std::vector<TumPose> truth = random_poses(6, 2);
  std::vector<TumPose> poses = {truth[4], truth[1], truth[3]};
  poses[0].time_s += 1e-4;
  poses.push_back({99, Eigen::Matrix4d::Identity()});
  const TrajectoryError error = trajectory_error(poses, truth);
  EXPECT_EQ(error.matched, 3);
  EXPECT_EQ(error.poses, 4);
  EXPECT_NEAR(error.ate_rmse, 0, 1e-9);
  EXPECT_THROW(trajectory_error({poses[0]}, truth), std::invalid_argument);
}

TEST(TrajectoryError, CentresInOnePlaceGiveFiniteNumbers) {
  const std::vector<TumPose> truth = random_poses(4, 3);
  std::vector<TumPose> poses = truth;
  for (TumPose& pose : poses) pose.world_from_cam.topRightCorner<3, 1>().setZero();
  const TrajectoryError error = trajectory_error(poses, truth);
  EXPECT_TRUE(std::isfinite(error.ate_rmse) && std::isfinite(error.scale));
  EXPECT_GT(error.ate_rmse, 0.1);
  EXPECT_EQ(to_json(error).find("null"), std::string::npos);
}

}  // namespace
}  // namespace vggt
