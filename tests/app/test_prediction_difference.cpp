// How far one run's predictions are from another's.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

#include "app/eval/prediction_difference.h"

namespace vggt {
namespace {

constexpr int kFrames = 11, kPixels = 600;

Eigen::Matrix3d turn(double degrees, const Eigen::Vector3d& axis) {
  return Eigen::AngleAxisd(degrees * std::numbers::pi / 180, axis.normalized()).toRotationMatrix();
}

/// Cameras at random places, with depth whose confidence grows with the pixel's number.
Predictions random_predictions() {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Predictions predictions;
  for (int frame = 0; frame < kFrames; ++frame) {
    Camera camera;
    camera.cam_from_world.linear() = turn(50 * normal(random), {normal(random), normal(random), 1});
    camera.cam_from_world.translation() = Eigen::Vector3d(normal(random), normal(random), normal(random));
    camera.width = camera.height = 100;
    camera.k(0, 0) = camera.k(1, 1) = 80;
    predictions.cameras.push_back(camera);
    std::vector<float> depth, confidence;
    for (int i = 0; i < kPixels; ++i) {
      depth.push_back(static_cast<float>(2 + std::abs(normal(random))));
      confidence.push_back(1.0F + static_cast<float>(frame + i * kFrames) / (kFrames * kPixels));
    }
    predictions.depth.push_back(depth);
    predictions.confidence.push_back(confidence);
  }
  return predictions;
}

TEST(PredictionDifference, OfTheSameIsZero) {
  const Predictions exact = random_predictions();
  const PredictionDifference same = difference(exact, exact, {});
  EXPECT_EQ(same.cameras.frames, std::size_t{kFrames});
  EXPECT_NEAR(same.cameras.rotation_deg.largest, 0, 1e-6);
  EXPECT_NEAR(same.cameras.translation_direction_deg.largest, 0, 1e-6);
  EXPECT_EQ(same.cameras.field_of_view_deg.largest, 0);
  EXPECT_NEAR(same.cameras.position, 0, 1e-12);
  EXPECT_NEAR(same.cameras.auc.at_5, 1, 1e-12);
  ASSERT_TRUE(same.depth);
  EXPECT_EQ(same.depth->pixels, std::size_t{kFrames * kPixels / 2});
  EXPECT_EQ(same.depth->scale, 1);
  EXPECT_EQ(same.depth->relative.largest, 0);
  EXPECT_NEAR(same.depth->confidence_correlation, 1, 1e-12);
}

TEST(PredictionDifference, AnotherWorldAndScaleMakeNone) {
  const Predictions exact = random_predictions();
  Predictions other = exact;
  const Eigen::Matrix3d rotation = turn(70, {1, 2, 3});
  for (Camera& camera : other.cameras) {
    camera.cam_from_world.linear() = camera.cam_from_world.linear() * rotation;
    camera.cam_from_world.translation() *= 0.5;
  }
  for (std::vector<float>& map : other.depth) {
    for (float& depth : map) depth *= 0.5F;
  }
  const PredictionDifference moved = difference(other, exact, {});
  EXPECT_NEAR(moved.cameras.rotation_deg.largest, 0, 1e-5);
  EXPECT_NEAR(moved.cameras.position, 0, 1e-9);
  EXPECT_EQ(moved.depth->scale, 2);
  EXPECT_EQ(moved.depth->relative.largest, 0);
}

TEST(PredictionDifference, OneTurnedCameraIsInItsPairsAlone) {
  const Predictions exact = random_predictions();
  Predictions other = exact;
  Camera& turned = other.cameras[4];
  const Eigen::Vector3d center = turned.center();
  turned.cam_from_world.linear() = turn(3, {0, 1, 0}) * turned.cam_from_world.linear();
  turned.cam_from_world.translation() = -(turned.cam_from_world.linear() * center);
  turned.k(0, 0) = 50;
  const CameraDifference cameras = difference(other, exact, {}).cameras;
  EXPECT_NEAR(cameras.rotation_deg.median, 0, 1e-6);
  EXPECT_NEAR(cameras.rotation_deg.ninety_percent, 3, 1e-6);  // 10 of 55 pairs
  EXPECT_NEAR(cameras.rotation_deg.largest, 3, 1e-6);
  EXPECT_NEAR(cameras.position, 0, 1e-9);
  EXPECT_LT(cameras.auc.at_5, 1);
  EXPECT_NEAR(cameras.field_of_view_deg.largest,
              2 * (std::atan(1.0) - std::atan(50.0 / 80)) * 180 / std::numbers::pi, 1e-9);
  EXPECT_EQ(cameras.field_of_view_deg.median, 0);
}

TEST(PredictionDifference, PositionsAreSharesOfTheTrajectory) {
  Predictions exact = random_predictions();
  for (Camera& camera : exact.cameras) camera.cam_from_world.translation() *= 1000;
  Predictions other = exact;
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 10);  // a hundredth of the spread
  for (Camera& camera : other.cameras) {
    camera.cam_from_world.translation() += Eigen::Vector3d(normal(random), normal(random), normal(random));
  }
  const double position = difference(other, exact, {}).cameras.position;
  EXPECT_GT(position, 0.003);
  EXPECT_LT(position, 0.03);
}

TEST(PredictionDifference, DepthCountsWhereTheExactSideIsConfident) {
  const Predictions exact = random_predictions();
  Predictions other = exact;
  for (std::vector<float>& map : other.depth) {
    for (int i = 0; i < kPixels / 2; ++i) map[static_cast<std::size_t>(i)] *= 9;  // the unconfident half
    for (int i = 400; i < 460; ++i) map[static_cast<std::size_t>(i)] *= 1.25F;    // a fifth of the others
    map[599] = std::numeric_limits<float>::quiet_NaN();                           // is not compared
  }
  const DepthDifference depth = *difference(other, exact, {}).depth;
  EXPECT_EQ(depth.pixels, std::size_t{kFrames * (kPixels / 2 - 1)});
  EXPECT_EQ(depth.scale, 1);
  EXPECT_EQ(depth.relative.median, 0);
  EXPECT_NEAR(depth.relative.ninety_percent, 0.25, 1e-6);
  EXPECT_NEAR(depth.relative.largest, 0.25, 1e-6);
}

TEST(PredictionDifference, ConfidencesAreCorrelated) {
  const Predictions exact = random_predictions();
  Predictions other = exact;
  for (std::vector<float>& map : other.confidence) {
    for (float& confidence : map) confidence = 10 / confidence;
  }
  const DepthDifference depth = *difference(other, exact, {}).depth;
  EXPECT_NEAR(depth.confidence_correlation, -1, 1e-6);
  EXPECT_NEAR(depth.exact_confidence, 1.5, 1e-3);
  EXPECT_NEAR(depth.other_confidence, 10 / 1.5, 1e-2);
}

TEST(PredictionDifference, FramesWithoutCameraAreLeftOut) {
  Predictions exact = random_predictions(), other = exact;
  exact.depth.clear();
  exact.confidence.clear();
  other.depth.clear();
  other.confidence.clear();
  other.cameras[3].valid = false;
  exact.cameras[5].valid = false;
  const PredictionDifference most = difference(other, exact, {});
  EXPECT_EQ(most.cameras.frames, std::size_t{kFrames - 2});
  EXPECT_FALSE(most.depth);
  for (std::size_t i = 1; i < other.cameras.size(); ++i) other.cameras[i].valid = false;
  EXPECT_THROW(difference(other, exact, {}), std::invalid_argument);
}

TEST(PredictionDifference, SidesOfOtherSizesAreRefused) {
  const Predictions exact = random_predictions();
  Predictions other = exact;
  other.depth[2].pop_back();
  EXPECT_THROW(difference(other, exact, {}), std::invalid_argument);
  other = exact;
  other.cameras.pop_back();
  EXPECT_THROW(difference(other, exact, {}), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
