// Matches of what stays at one place of the images while the scene moves.
#include <gtest/gtest.h>

#include <algorithm>

#include "app/adjust/overlays.h"

namespace vggt {
namespace {

constexpr int kFrames = 5, kOfScene = 40, kOfLogo = 10;

/// Anchors of frame 0 and where the other frames show them: those of the scene move by `way` pixels a frame,
/// those of a logo by a tenth of a pixel at most.
struct Matches {
  explicit Matches(double way, int frames = kFrames) {
    for (int a = 0; a < kOfScene + kOfLogo; ++a) {
      anchors.push_back({0, {10.0 * a, 7.0 * (a % 9)}, 0});
      for (int f = 1; f < frames; ++f) {
        const double moved = a < kOfScene ? way * f : 0.1;
        sightings.push_back({a, f, anchors.back().pixel + Eigen::Vector2d(moved, 0)});
      }
    }
  }
  int64_t of_logo() const {
    return std::ranges::count_if(sightings, [](const Sighting& s) { return s.anchor >= kOfScene; });
  }

  std::vector<Anchor> anchors;
  std::vector<Sighting> sightings;
};

TEST(Overlays, WhatStaysWhereTheRestMovesGoes) {
  Matches matches(8);
  EXPECT_NEAR(drop_overlays(matches.anchors, matches.sightings), 0.2, 0.01);
  EXPECT_EQ(matches.of_logo(), 0);
  EXPECT_EQ(matches.sightings.size(), kOfScene * (kFrames - 1));
}

TEST(Overlays, NothingGoesWhereTheCameraHardlyMoves) {
  for (const double way : {0.0, 0.5, 1.4}) {
    Matches matches(way);
    const std::size_t all = matches.sightings.size();
    EXPECT_EQ(drop_overlays(matches.anchors, matches.sightings), 0) << way;
    EXPECT_EQ(matches.sightings.size(), all) << way;
  }
}

TEST(Overlays, TwoFramesDoNotTellAndOneThatMovesDoes) {
  Matches few(8, 3);
  EXPECT_EQ(drop_overlays(few.anchors, few.sightings), 0);  // of two other frames: it may be far away
  Matches matches(8);
  for (Sighting& sighting : matches.sightings) {
    if (sighting.anchor >= kOfScene && sighting.frame == 4) sighting.pixel.x() += 3;
  }
  EXPECT_EQ(drop_overlays(matches.anchors, matches.sightings), 0);
}

TEST(Overlays, NoMatchesAreNone) {
  std::vector<Sighting> none;
  EXPECT_EQ(drop_overlays({}, none), 0);
}

}  // namespace
}  // namespace vggt
