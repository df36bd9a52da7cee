// The pose of a frame most of whose sightings are wrong.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>
#include <random>

#include "app/adjust/frame_pose.h"
#include "app/adjust/sighting_error.h"

namespace {

using namespace vggt;

constexpr int kSeen = 60;

Eigen::Isometry3d true_pose() {
  Eigen::Isometry3d pose = Eigen::Isometry3d::Identity();
  pose.linear() = Eigen::AngleAxisd(0.3, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
  pose.translation() << -0.8, 0.1, 0.2;
  return pose;
}

/// Two frames; the second one sees anchors of the first, of which `wrong` lie anywhere. Its pose is off.
Bundle bundle_with(double wrong, double turn_off, double k1 = 0) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  Bundle bundle;
  bundle.lenses.push_back({{700, 700}, {639.5, 359.5}, {k1, 0}});
  bundle.lens_free.emplace_back();
  bundle.lens_of = {0, 0};
  bundle.free = {false, true};
  bundle.poses = {Eigen::Isometry3d::Identity(), true_pose()};
  for (int i = 0; i < kSeen; ++i) {
    const Eigen::Vector2d pixel(640 + 500 * unit(random), 360 + 300 * unit(random));
    bundle.anchors.push_back({0, pixel, std::log(3 + unit(random))});
    const Eigen::Vector3d point = AnchorRay(bundle, bundle.anchors.back()).in_world;
    Eigen::Vector2d shown = shown_at(bundle.lenses[0], (true_pose() * point).hnormalized());
    shown += Eigen::Vector2d(unit(random), unit(random));
    if (i < wrong * kSeen) shown += 150 * Eigen::Vector2d(unit(random), unit(random));
    bundle.sightings.push_back({i, 1, shown});
  }
  bundle.poses[1].prerotate(Eigen::AngleAxisd(turn_off, Eigen::Vector3d(1, 2, 0.5).normalized()));
  bundle.poses[1].translation() += Eigen::Vector3d(0.2, -0.1, 0.1);
  return bundle;
}

double degrees_off(const Bundle& bundle) {
  const Eigen::AngleAxisd turn(bundle.poses[1].linear() * true_pose().linear().transpose());
  return turn.angle() * 180 / std::numbers::pi;
}

TEST(FramePose, IsFoundAmongWrongSightings) {
  for (const double k1 : {0.0, -0.2}) {
    for (const double wrong : {0.6, 0.7}) {
      Bundle bundle = bundle_with(wrong, 0.15, k1);
      ASSERT_GT(degrees_off(bundle), 8);
      EXPECT_TRUE(find_pose_anew(bundle, 1));
      EXPECT_LT(degrees_off(bundle), 0.3) << wrong << " " << k1;
      EXPECT_LT((bundle.poses[1].translation() - true_pose().translation()).norm(), 0.03);
      EXPECT_TRUE(bundle.poses[0].matrix().isIdentity(0));
    }
  }
}

TEST(FramePose, StaysWhereNoneIsClearlyBetter) {
  Bundle right = bundle_with(0.7, 0);
  right.poses[1] = true_pose();
  Bundle few = bundle_with(0, 0.15), none = bundle_with(1, 0.15);
  few.sightings.resize(8);
  for (Bundle* bundle : {&right, &few}) {
    const Eigen::Isometry3d before = bundle->poses[1];
    EXPECT_FALSE(find_pose_anew(*bundle, 1));
    EXPECT_EQ(bundle->poses[1].matrix(), before.matrix());
  }
  find_pose_anew(none, 1);
  EXPECT_TRUE(none.poses[1].matrix().allFinite());
}

TEST(FramePose, IsTheSameEachTime) {
  Bundle one = bundle_with(0.6, 0.1), other = bundle_with(0.6, 0.1);
  EXPECT_TRUE(find_pose_anew(one, 1));
  EXPECT_TRUE(find_pose_anew(other, 1));
  EXPECT_EQ(one.poses[1].matrix(), other.poses[1].matrix());
}

}  // namespace
