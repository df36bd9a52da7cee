// A tenth of the matches is held out, and judged by epipolar lines.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "app/adjust/held_out.h"
#include "app/adjust/sighting_error.h"
#include "app/scene/median.h"

namespace {

using namespace vggt;

/// Two cameras, the second one aside and turned, with points that both show exactly.
Bundle two_cameras(double k1) {
  Bundle bundle;
  bundle.lenses.push_back({{400, 400}, {160, 120}, {k1, 0}});
  bundle.lens_of = {0, 0};
  bundle.poses.assign(2, Eigen::Isometry3d::Identity());
  bundle.poses[1].linear() = Eigen::AngleAxisd(0.2, Eigen::Vector3d::UnitY()).toRotationMatrix();
  bundle.poses[1].translation() << -0.5, 0.1, 0.05;
  for (int y = 20; y < 220; y += 10) {
    for (int x = 20; x < 300; x += 10) {
      const Eigen::Vector2d pixel(x, y);
      const double depth = 2 + 0.003 * x;
      const Eigen::Vector3d point = depth * seen_at(bundle.lenses[0], pixel).homogeneous();
      bundle.sightings.push_back({static_cast<int>(bundle.anchors.size()), 1,
                                  shown_at(bundle.lenses[0], (bundle.poses[1] * point).hnormalized())});
      bundle.anchors.push_back({0, pixel, std::log(depth)});
    }
  }
  return bundle;
}

/// Their median.
double epipolar_error(const Bundle& bundle, const std::vector<Sighting>& sightings) {
  std::vector<double> errors = epipolar_errors(bundle, bundle.anchors, sightings);
  return median(std::span(errors));
}

TEST(HeldOut, IsATenthAndAlwaysTheSame) {
  const Bundle bundle = two_cameras(0);
  std::vector<Sighting> left = bundle.sightings,
                        fewer(bundle.sightings.begin() + 100, bundle.sightings.end());
  const std::vector<Sighting> out = hold_out(left), again = hold_out(fewer);
  EXPECT_EQ(out.size() + left.size(), bundle.sightings.size());
  EXPECT_NEAR(static_cast<double>(out.size()) / static_cast<double>(bundle.sightings.size()), 0.1, 0.04);
  const auto begin = std::ranges::find_if(out, [](const Sighting& s) { return s.anchor >= 100; });
  ASSERT_EQ(static_cast<std::size_t>(out.end() - begin), again.size());
  for (std::size_t i = 0; i < again.size(); ++i)
    EXPECT_EQ(begin[static_cast<std::ptrdiff_t>(i)].anchor, again[i].anchor);
}

TEST(HeldOut, ErrorsOfCamerasInOnePlaceArePixels) {
  for (const double k1 : {0.0, -0.2}) {
    Bundle bundle = two_cameras(k1);
    for (Eigen::Isometry3d& pose : bundle.poses)  // of one centre, to rounding
      pose.translation() = -(pose.linear() * Eigen::Vector3d(3, -2, 7));
    for (Sighting& sighting : bundle.sightings) {
      const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(sighting.anchor)];
      const Eigen::Vector3d ray = seen_at(bundle.lenses[0], anchor.pixel).homogeneous();
      sighting.pixel = shown_at(bundle.lenses[0], (bundle.poses[1].linear() * ray).hnormalized());
    }
    EXPECT_LT(epipolar_error(bundle, bundle.sightings), 1e-9);
    for (Sighting& sighting : bundle.sightings) sighting.pixel += Eigen::Vector2d(0.6, 0.8);
    EXPECT_NEAR(epipolar_error(bundle, bundle.sightings), 1, 0.15);
  }
}

TEST(HeldOut, ErrorsArePixelsFromEpipolarLines) {
  for (const double k1 : {0.0, -0.2}) {
    Bundle bundle = two_cameras(k1);
    EXPECT_LT(epipolar_error(bundle, bundle.sightings), 1e-9);
    // The cameras stand side by side: epipolar lines run across, and only what is off downwards counts.
    bundle.poses[1].linear().setIdentity();
    bundle.poses[1].translation() << -0.5, 0, 0;
    for (Sighting& sighting : bundle.sightings) {
      const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(sighting.anchor)];
      const Eigen::Vector3d point =
          std::exp(anchor.log_depth) * seen_at(bundle.lenses[0], anchor.pixel).homogeneous();
      sighting.pixel = shown_at(bundle.lenses[0], (bundle.poses[1] * point).hnormalized());
    }
    std::vector<Sighting> moved = bundle.sightings;
    for (Sighting& sighting : moved) sighting.pixel.y() += 0.5;
    EXPECT_NEAR(epipolar_error(bundle, moved), 0.5, k1 == 0 ? 1e-9 : 0.05);
    for (Sighting& sighting : moved) sighting.pixel.x() += 3;
    EXPECT_NEAR(epipolar_error(bundle, moved), 0.5, k1 == 0 ? 1e-9 : 0.1);
  }
}

TEST(CostChange, SaysHowMuchAndHowClearlyErrorsFell) {
  std::vector<double> before, noise, smaller;
  for (int i = 0; i < 1000; ++i) {
    before.push_back(0.2 + 0.15 * std::sin(7.0 * i));
    noise.push_back(before.back() * (i % 2 == 0 ? 1.1 : 1 / 1.1));
    smaller.push_back(before.back() * (i % 10 < 7 ? 0.8 : 1.05));
  }
  const CostChange same = cost_change(before, before), noisy = cost_change(noise, before),
                   better = cost_change(smaller, before), worse = cost_change(before, smaller);
  EXPECT_EQ(same.share, 1);
  EXPECT_EQ(same.standard_errors, 0);
  EXPECT_NEAR(noisy.share, 1, 0.02);
  EXPECT_LT(std::abs(noisy.standard_errors), 2);
  EXPECT_LT(better.share, 0.9);
  EXPECT_GT(better.standard_errors, 10);
  EXPECT_GT(worse.share, 1.1);
  EXPECT_LT(worse.standard_errors, -10);
  // A match that is lost counts little, and errors of nothing are no division by it.
  std::vector<double> lost = before;
  lost[0] = 1e9;
  EXPECT_LT(cost_change(lost, before).share, 1.1);
  EXPECT_LT(std::abs(cost_change(lost, before).standard_errors), 2);
  for (const auto& [errors, of] :
       {std::pair(std::vector<double>{0, 0}, std::vector<double>{0, 0}), {{0.1}, {0.2}}, {{}, {}}}) {
    EXPECT_EQ(cost_change(errors, of).share, 1);
    EXPECT_EQ(cost_change(errors, of).standard_errors, 0);
  }
}

}  // namespace
