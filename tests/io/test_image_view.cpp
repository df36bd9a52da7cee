// How exported images lie to the upright originals: turned as they are stored, or undistorted.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "io/scene/image_view.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

/// A portrait of 300×400 that the network saw cropped and squeezed.
Camera portrait() {
  Camera camera;
  camera.width = 112;
  camera.height = 112;
  camera.original_width = 300;
  camera.original_height = 400;
  camera.map = {112.0 / 300, 154.0 / 400, 0, -21};
  camera.k << 100 * camera.map.scale_x, 0, camera.map.network_x(151.5), 0, 100 * camera.map.scale_y,
      camera.map.network_y(197.25), 0, 0, 1;
  camera.k.topLeftCorner<2, 2>() *= 3.5;
  camera.model = CameraModel::simple_pinhole;
  camera.cam_from_world.linear() =
      Eigen::AngleAxisd(.4, Eigen::Vector3d(.3, -1, .2).normalized()).toRotationMatrix();
  camera.cam_from_world.translation() << .1, -.3, .2;
  return camera;
}

std::vector<Eigen::Vector3d> points_in_front_of(const Camera& camera) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> across(-.3, .3), ahead(1, 9);
  std::vector<Eigen::Vector3d> points;
  for (int i = 0; i < 50; ++i) {
    const double z = ahead(random);
    points.push_back(camera.cam_from_world.inverse() *
                     Eigen::Vector3d(across(random) * z, across(random) * z, z));
  }
  return points;
}

TEST(ImageView, OriginalCameraUndoesCropAndScale) {
  const Camera camera = portrait(), original = original_camera(camera);
  EXPECT_EQ(original.width, 300);
  EXPECT_EQ(original.height, 400);
  for (const Eigen::Vector3d& point : points_in_front_of(camera)) {
    const Eigen::Vector2d seen = camera.project(camera.cam_from_world * point);
    const Eigen::Vector2d there(camera.map.original_x(seen.x()), camera.map.original_y(seen.y()));
    EXPECT_LT((original.project(original.cam_from_world * point) - there).norm(), 1e-9);
  }
}

TEST(ImageView, ATurnedCameraShowsPointsWhereTheStoredImageHasThem) {
  const Camera camera = portrait(), upright = original_camera(camera);
  for (int turns = 0; turns < 4; ++turns) {
    const ViewedImage image(camera, {turns, false});
    EXPECT_EQ(image.camera().width, turns % 2 ? 400 : 300);
    EXPECT_EQ(image.camera().height, turns % 2 ? 300 : 400);
    EXPECT_NEAR(image.camera().cam_from_world.linear().determinant(), 1, 1e-12);
    for (const Eigen::Vector3d& point : points_in_front_of(camera)) {
      const Eigen::Vector2d pixel = upright.project(upright.cam_from_world * point);
      const Eigen::Vector2d turned = image.camera().project(image.camera().cam_from_world * point);
      EXPECT_LT((turned - image.from_original(pixel)).norm(), 1e-9) << turns;
      EXPECT_LT((image.to_original(turned) - pixel).norm(), 1e-9) << turns;
    }
  }
}

TEST(ImageView, TurnsAreThoseOfExif) {
  Camera camera = portrait();
  const cv::Mat upright = test::position_picture(300, 400);
  for (const auto& [orientation, turns] : {std::pair(1, 0), {6, 1}, {3, 2}, {8, 3}}) {
    const cv::Mat stored = test::stored_picture(upright, orientation);
    const ViewedImage image(camera, {turns, false});
    ASSERT_EQ(image.camera().width, stored.cols);
    for (const Eigen::Vector2d& pixel : {Eigen::Vector2d(0, 0), {299, 0}, {17, 250}}) {
      const Eigen::Vector2d there = image.from_original(pixel);
      EXPECT_EQ(stored.at<cv::Vec3b>(static_cast<int>(there.y()), static_cast<int>(there.x())),
                upright.at<cv::Vec3b>(static_cast<int>(pixel.y()), static_cast<int>(pixel.x())))
          << orientation;
    }
  }
}

TEST(ImageView, AnUndistortedImageIsThatOfAPinhole) {
  for (const Eigen::Vector2d& distortion : {Eigen::Vector2d(-.2, .05), Eigen::Vector2d(.1, 0)}) {
    Camera camera = portrait();
    camera.model = CameraModel::radial;
    camera.distortion = distortion;
    const Camera upright = original_camera(camera);
    const ViewedImage image(camera, {0, true});
    EXPECT_FALSE(image.camera().is_distorted());
    EXPECT_EQ(image.camera().model, CameraModel::simple_pinhole);
    EXPECT_TRUE(image.camera().k.isApprox(upright.k));
    for (const Eigen::Vector3d& point : points_in_front_of(camera)) {
      const Eigen::Vector2d pixel = upright.project(upright.cam_from_world * point);
      const Eigen::Vector2d straight = image.camera().project(upright.cam_from_world * point);
      EXPECT_LT((straight - image.from_original(pixel)).norm(), 1e-7);
      EXPECT_LT((image.to_original(straight) - pixel).norm(), 1e-9);
    }
  }
  Camera folded = portrait();
  folded.distortion = {-.5, 0};  // grows up to r² = 2/3
  const ViewedImage image(folded, {0, true});
  const Eigen::Matrix3d& k = image.camera().k;
  EXPECT_TRUE(image.to_original((k * Eigen::Vector3d(.81, 0, 1)).head<2>()).allFinite());
  EXPECT_FALSE(image.to_original((k * Eigen::Vector3d(.82, 0, 1)).head<2>()).allFinite());
}

TEST(ImageView, RefusesACameraWithoutOriginal) {
  EXPECT_THROW(ViewedImage(Camera(), {}), std::logic_error);
}

}  // namespace
}  // namespace vggt
