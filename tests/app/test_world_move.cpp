// A moved world looks the same to its moved cameras; which way is down, by the cameras' horizon.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <random>

#include "app/scene/align_cameras.h"
#include "app/scene/scene_cloud.h"
#include "app/scene/world_move.h"

namespace vggt {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

Eigen::Quaterniond random_turn(std::mt19937& random) {
  std::normal_distribution<double> normal;
  return Eigen::Quaterniond(normal(random), normal(random), normal(random), normal(random)).normalized();
}

Eigen::Affine3d random_similarity(std::mt19937& random, double scale) {
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  similarity.linear() = scale * random_turn(random).toRotationMatrix();
  similarity.translation() = Eigen::Vector3d(3, -4, 5);
  return similarity;
}

Camera some_camera(std::mt19937& random) {
  Camera camera;
  camera.width = 40;
  camera.height = 30;
  camera.k << 33, 0, 20, 0, 31, 14, 0, 0, 1;
  camera.cam_from_world.linear() = random_turn(random).toRotationMatrix();
  camera.cam_from_world.translation() = Eigen::Vector3d(1, 2, -0.5);
  return camera;
}

TEST(MovedCamera, SeesMovedPointsWhereItSawThem) {
  std::mt19937 random(1);
  for (const double scale : {1.0, 0.02, 70.0}) {
    const Eigen::Affine3d similarity = random_similarity(random, scale);
    EXPECT_NEAR(scale_of(similarity), scale, 1e-12 * scale);
    const Camera camera = some_camera(random), after = moved(similarity, camera);
    for (const Eigen::Vector3d& in_camera : {Eigen::Vector3d(0.3, -0.2, 1), Eigen::Vector3d(-1, 2, 7)}) {
      const Eigen::Vector3d point = camera.cam_from_world.inverse() * in_camera;
      const Eigen::Vector3d moved_in_camera = after.cam_from_world * (similarity * point);
      EXPECT_LT((moved_in_camera - scale * in_camera).norm(), 1e-9 * scale);
    }
    EXPECT_LT((after.center() - similarity * camera.center()).norm(), 1e-9 * scale);
  }
}

TEST(MovedScene, HasItsPointsMoved) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> unit(0, 1);
  const Eigen::Affine3d similarity = random_similarity(random, 2.5);
  constexpr int kWidth = 40, kHeight = 30;
  constexpr std::size_t kPixels = std::size_t{kWidth} * kHeight;
  std::vector<float> depth, points, confidence(2 * kPixels, 1);
  for (std::size_t i = 0; i < 2 * kPixels; ++i) depth.push_back(1 + unit(random));
  for (std::size_t i = 0; i < 6 * kPixels; ++i) points.push_back(unit(random));
  const std::vector<Camera> cameras = {some_camera(random), some_camera(random)};
  for (const bool from_depth : {true, false}) {
    const auto cloud = [&](bool move) {
      SceneOptions options;
      options.conf_percentile = 0;
      SceneBuilder builder(options, kWidth, kHeight, std::vector<FrameView>(2, {0, kWidth, 0, kHeight}),
                           [](std::size_t, std::span<uint8_t>) {});
      builder.set_cameras(cameras);
      builder.add({0, 2, from_depth ? depth.data() : nullptr, from_depth ? nullptr : points.data(),
                   confidence.data()});
      if (move) builder.move(similarity);
      BuiltScene scene = builder.finish();
      PointCloud result = SceneCloud(builder, {}, true, scene).in_memory();
      return std::pair(result, scene.median_depth);
    };
    const auto [before, depth_before] = cloud(false);
    const auto [after, depth_after] = cloud(true);
    ASSERT_EQ(after.points.size(), 2 * kPixels);
    EXPECT_NEAR(depth_after, 2.5 * depth_before, 1e-5);
    for (std::size_t i = 0; i < after.points.size(); ++i) {
      const Eigen::Vector3f expected = (similarity * before.points[i].cast<double>()).cast<float>();
      ASSERT_LT((after.points[i] - expected).norm(), 1e-5) << i;
    }
  }
}

TEST(MovedTracks, KeepTheirObservations) {
  std::vector<Track> tracks(1);
  tracks[0].point_in_world = Eigen::Vector3d(1, 2, 3);
  tracks[0].observations = {{4, {5, 6}}};
  Eigen::Affine3d twice = Eigen::Affine3d::Identity();
  twice.prescale(2.0);
  move_tracks(twice, tracks);
  EXPECT_EQ(tracks[0].point_in_world, Eigen::Vector3d(2, 4, 6));
  EXPECT_EQ(tracks[0].observations[0].pixel, Eigen::Vector2d(5, 6));
}

/// A camera that is turned, then looks up, then is rolled, in a world where y points down.
Camera held(double yaw, double pitch, double roll) {
  Camera camera;
  const Eigen::Matrix3d world_from_cam = (Eigen::AngleAxisd(yaw * kDegree, Eigen::Vector3d::UnitY()) *
                                          Eigen::AngleAxisd(pitch * kDegree, Eigen::Vector3d::UnitX()) *
                                          Eigen::AngleAxisd(roll * kDegree, Eigen::Vector3d::UnitZ()))
                                             .toRotationMatrix();
  camera.cam_from_world.linear() = world_from_cam.transpose();
  return camera;
}

double degrees_between(const Eigen::Vector3d& a, const Eigen::Vector3d& b) {
  return std::acos(std::min(1.0, a.dot(b))) / kDegree;
}

TEST(GuessDown, IsAcrossTheHorizon) {
  std::mt19937 random(3);
  std::normal_distribution<double> roll(0, 2);
  for (int i = 0; i < 20; ++i) {
    Eigen::Affine3d turn = Eigen::Affine3d::Identity();
    turn.linear() = random_turn(random).toRotationMatrix();
    std::vector<Camera> cameras;
    for (int k = 0; k < 24; ++k) cameras.push_back(held(15 * k, 20, roll(random)));  // all look up
    cameras[3] = held(40, 0, 90);  // portrait, and nobody said so
    cameras[4].valid = false;
    move_cameras(turn, cameras);
    const auto guess = guess_down(cameras);
    ASSERT_TRUE(guess);
    EXPECT_LT(degrees_between(guess->down, turn.linear() * Eigen::Vector3d::UnitY()), 2);
    EXPECT_GT(guess->median_tilt_deg, 0.3);
    EXPECT_LT(guess->median_tilt_deg, 3);
    move_cameras(turn_upright(guess->down), cameras);
    EXPECT_LT(degrees_between(guess_down(cameras)->down, Eigen::Vector3d::UnitY()), 1e-4);
  }
}

TEST(GuessDown, OfParallelCamerasIsWhereTheImagesBottomsAre) {
  const auto guess = guess_down({held(2, 0, 1), held(-2, 0, -1), held(0, 10, 0), held(0, -10, 0)});
  ASSERT_TRUE(guess);
  EXPECT_LT(degrees_between(guess->down, Eigen::Vector3d::UnitY()), 1);
}

TEST(GuessDown, IsNothingWithoutACommonSide) {
  EXPECT_FALSE(guess_down({}));
  EXPECT_FALSE(guess_down({held(0, 0, 0), held(0, 0, 180)}));
  Camera lost = held(0, 0, 0);
  lost.valid = false;
  EXPECT_FALSE(guess_down({lost}));
}

TEST(AlignCameras, LeavesTheDistanceThatNoSimilarityExplains) {
  std::mt19937 random(5);
  const Eigen::Affine3d similarity = random_similarity(random, 0.3);
  std::vector<CameraPair> pairs;
  for (int i = 0; i < 8; ++i) {
    Camera camera = some_camera(random);
    camera.cam_from_world.translation() = Eigen::Vector3d(i, i % 3, i % 2);
    pairs.push_back({camera, moved(similarity, camera)});
  }
  EXPECT_LT((align(pairs).matrix() - similarity.matrix()).norm(), 1e-9);
  EXPECT_LT(rms_distance(centres_of(pairs), similarity), 1e-9);
  Eigen::Affine3d beside = similarity;
  beside.translation() += Eigen::Vector3d(0, 0, 2);
  EXPECT_NEAR(rms_distance(centres_of(pairs), beside), 2, 1e-9);
}

}  // namespace
}  // namespace vggt
