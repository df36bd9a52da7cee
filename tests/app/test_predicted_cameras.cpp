// Cameras to the network's arrays and back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "app/scene/predicted_cameras.h"

namespace vggt {
namespace {

/// The network's arrays of some cameras: pose_enc [S,9], extrinsic [S,3,4], intrinsic [S,3,3].
struct Arrays {
  explicit Arrays(std::size_t frames) {
    for (std::size_t i = 0; i < frames; ++i) {
      pose_enc.insert(pose_enc.end(), {0, 0, 0, 0, 0, 0, 1, 1, 1});
      extrinsic.insert(extrinsic.end(), {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
      intrinsic.insert(intrinsic.end(), {30, 0, 15, 0, 25, 10, 0, 0, 1});
    }
  }
  std::vector<Camera> cameras() const {
    return cameras_from(pose_enc.data(), extrinsic.data(), intrinsic.data(),
                        static_cast<int>(pose_enc.size() / 9), 30, 20);
  }
  std::vector<float> pose_enc, extrinsic, intrinsic;
};

// Far from the origin a rotation of float's digits would put the centre elsewhere.
TEST(PredictedCameras, RotationsAreRotationsToDoublesDigits) {
  Arrays arrays(1);
  const Eigen::Matrix3f turn =
      Eigen::AngleAxisf(.7F, Eigen::Vector3f(1, -2, .5F).normalized()).toRotationMatrix();
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column)
      arrays.extrinsic[static_cast<std::size_t>(4 * row + column)] = turn(row, column);
  }
  const Eigen::Matrix3d found = arrays.cameras().front().cam_from_world.linear();
  EXPECT_TRUE((found * found.transpose()).isIdentity(1e-14));
  EXPECT_TRUE(found.isApprox(turn.cast<double>(), 1e-6));
}

TEST(PredictedCameras, AreStoredAsTheyAreRead) {
  std::vector<Camera> cameras = Arrays(5).cameras();
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    const auto angle = 0.7 * static_cast<double>(i);
    cameras[i].cam_from_world = Eigen::AngleAxisd(angle, Eigen::Vector3d(1, 2, 3).normalized());
    cameras[i].cam_from_world.translation() << angle, 1.5, -0.25;
    cameras[i].k(0, 0) = 30 + angle;
  }
  Arrays stored(5);
  store_cameras(cameras, stored.pose_enc.data(), stored.extrinsic.data(), stored.intrinsic.data());
  const std::vector<Camera> read = stored.cameras();
  ASSERT_EQ(read.size(), 5U);
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    EXPECT_TRUE(read[i].valid);
    EXPECT_EQ(read[i].width, 30);
    EXPECT_EQ(read[i].height, 20);
    EXPECT_EQ(read[i].k, cameras[i].k.cast<float>().cast<double>());
    EXPECT_TRUE(read[i].cam_from_world.isApprox(cameras[i].cam_from_world, 1e-6));
    // The encoding says the same: translation, quaternion xyzw, fields of view of height and width.
    const float* pose = stored.pose_enc.data() + 9 * i;
    const Eigen::Quaterniond turn(pose[6], pose[3], pose[4], pose[5]);
    EXPECT_TRUE(turn.toRotationMatrix().isApprox(cameras[i].cam_from_world.linear(), 1e-6));
    EXPECT_EQ(pose[0], static_cast<float>(cameras[i].cam_from_world.translation().x()));
    EXPECT_NEAR(pose[7], 2 * std::atan(10 / 25.0), 1e-6);
    EXPECT_NEAR(pose[8], *cameras[i].fov_x_rad(), 1e-6);
  }
}

TEST(PredictedCameras, OfCamerasThatAreNotValidNothingIsStored) {
  std::vector<Camera> cameras = Arrays(2).cameras();
  cameras[1].valid = false;
  cameras[0].k(0, 0) = cameras[1].k(0, 0) = 77;
  Arrays stored(2);
  store_cameras(cameras, stored.pose_enc.data(), stored.extrinsic.data(), stored.intrinsic.data());
  EXPECT_EQ(stored.intrinsic[0], 77);
  EXPECT_EQ(stored.intrinsic[9], 30);
  EXPECT_EQ(stored.pose_enc[9 + 8], 1);
}

TEST(PredictedCameras, AreValidOnlyIfFiniteWithAFieldOfView) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  Arrays arrays(6);
  arrays.pose_enc[9 * 1 + 7] = 0;
  arrays.pose_enc[9 * 2 + 8] = -0.1F;
  arrays.pose_enc[9 * 3 + 8] = 3.2F;
  arrays.extrinsic[12 * 4 + 3] = kNan;
  arrays.intrinsic[9 * 5 + 4] = kInf;
  const std::vector<Camera> cameras = arrays.cameras();
  EXPECT_TRUE(cameras[0].valid);
  for (std::size_t i = 1; i < cameras.size(); ++i) {
    EXPECT_FALSE(cameras[i].valid) << i;
    EXPECT_TRUE(cameras[i].k.allFinite() && cameras[i].cam_from_world.matrix().allFinite()) << i;
  }
}

}  // namespace
}  // namespace vggt
