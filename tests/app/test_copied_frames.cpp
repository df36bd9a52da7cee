// Frames that show the same as another: which they are, and what they get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/copied_frames.h"
#include "tests/support/adjusted_scene.h"

namespace {

using namespace vggt;
using namespace vggt::test;

// As partners of each other copies would take the place of the frames that tell where they are.
TEST(CopiedFrames, CopiesGetTheCameraOfTheFrameThatTheyShow) {
  const Scene truth;
  Scene scene = truth;
  std::vector<Camera> given = beside(truth.cameras);
  std::vector<std::size_t> shown{0, 1, 2, 3, 4};
  for (const std::size_t f : {0U, 0U, 0U, 4U, 4U, 4U}) {
    shown.push_back(f);
    scene.rgb.push_back(truth.rgb[f]);
    scene.rgb.back()[kPixels + 5000] ^= 1;  // hardly anything else
    scene.depth.push_back(truth.depth[f]);
    scene.cameras.push_back(truth.cameras[f]);
    given.push_back(given[f]);
    given.back().cam_from_world.translation().x() += 0.01 * static_cast<double>(shown.size());
  }
  const Adjusted result = adjust(scene, given), alone = adjust(truth, beside(truth.cameras));
  ASSERT_TRUE(result.changed) << result.summary;
  EXPECT_NE(result.summary.find("; 6 frames are copies of others"), std::string::npos) << result.summary;
  EXPECT_TRUE(result.weak_frames.empty() && result.groups.empty());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Camera &camera = result.cameras[i], &of_shown = alone.cameras[shown[i]];
    EXPECT_TRUE(camera.valid);
    EXPECT_EQ(camera.cam_from_world.matrix(), of_shown.cam_from_world.matrix()) << i;
    EXPECT_EQ(camera.k, of_shown.k);
    EXPECT_EQ(camera.camera_id, of_shown.camera_id);
    EXPECT_EQ(result.depth[i], alone.depth[shown[i]]) << i;
  }
  ASSERT_FALSE(result.tracks.empty());
  for (const Track& track : result.tracks) {  // copies observe what the frames that they show observe
    const auto pixel_in = [&](std::size_t frame) {
      const auto seen = std::ranges::find(track.observations, static_cast<int>(frame), &Observation::frame);
      return seen == track.observations.end() ? Eigen::Vector2d(-1, -1) : seen->pixel;
    };
    EXPECT_TRUE(std::ranges::is_sorted(track.observations, {}, &Observation::frame));
    for (std::size_t i = 5; i < shown.size(); ++i) EXPECT_EQ(pixel_in(i), pixel_in(shown[i])) << i;
  }

  AdjustOptions lens;
  lens.intrinsics = Known::nearly;
  const Adjusted refined = adjust(scene, given, lens);
  ASSERT_TRUE(refined.changed) << refined.summary;
  for (std::size_t i = 5; i < shown.size(); ++i) {
    EXPECT_EQ(refined.cameras[i].k, refined.cameras[shown[i]].k);
    EXPECT_EQ(refined.cameras[i].camera_id, refined.cameras[shown[i]].camera_id);
  }
  AdjustOptions known;
  known.poses = Known::exactly;
  for (std::size_t i = 0; i < given.size(); ++i) given[i].cam_from_world = scene.cameras[i].cam_from_world;
  EXPECT_EQ(adjust(scene, given, known).summary.find("copies"),
            std::string::npos);  // poses that are given stay
}

TEST(CopiedFrames, FramesThatAllShowTheSameStay) {
  Scene scene;
  for (std::size_t f = 1; f < scene.rgb.size(); ++f) scene.rgb[f] = scene.rgb[0];
  const std::vector<Camera> given = beside(scene.cameras);
  const Adjusted result = adjust(scene, given);
  EXPECT_FALSE(result.changed);
  EXPECT_EQ(result.summary, "not adjusted: all frames with a camera show the same");
  for (std::size_t f = 0; f < given.size(); ++f) {
    EXPECT_TRUE(result.cameras[f].valid);
    EXPECT_EQ(result.cameras[f].cam_from_world.matrix(), given[f].cam_from_world.matrix());
  }
}

TEST(CopiedFrames, AFrameMovedByATenthOfAPixelIsNoCopy) {
  const Scene truth;
  Scene scene = truth;
  const std::vector<Camera>& cameras = truth.cameras;
  const std::vector<std::size_t> none{0, 1, 2, 3, 4};
  for (std::size_t i = 0; i + 1 < kPixels; ++i) {
    const double moved = 0.9 * truth.rgb[0][kPixels + i] + 0.1 * truth.rgb[0][kPixels + i + 1];
    scene.rgb[1][kPixels + i] = static_cast<uint8_t>(std::lround(moved));
  }
  EXPECT_EQ(first_copies(scene.input(), cameras, false, {}), none);
  scene.rgb[1] = scene.rgb[0];
  EXPECT_EQ(first_copies(scene.input(), cameras, false, {})[1], 0U);
  MatchInput other = scene.input();
  other.frames[1].camera = "another";
  EXPECT_EQ(first_copies(other, cameras, false, {}), none);
  std::vector<Camera> lenses = cameras;
  lenses[1].k(0, 0) += 1;
  EXPECT_EQ(first_copies(scene.input(), lenses, false, {})[1], 0U);
  EXPECT_EQ(first_copies(scene.input(), lenses, true, {}), none);
  scene.rgb[1].assign(3 * kPixels, 0);
  scene.rgb[0] = scene.rgb[1];  // where nothing is to be seen all look alike
  EXPECT_EQ(first_copies(scene.input(), cameras, false, {}), none);
}

}  // namespace
