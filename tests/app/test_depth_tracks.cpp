// Tracks made by depth: points on which frames agree, and what joins the tracks of an adjustment.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "app/export/depth_tracks.h"

namespace vggt {
namespace {

/// Four cameras side by side that look at a wall 5 away; frames have side × side pixels, originals as many
/// times `scale`.
std::vector<FrameCamera> cameras_before_a_wall(int side, double focal, double apart, double scale) {
  std::vector<FrameCamera> cameras(4);
  for (std::size_t f = 0; f < cameras.size(); ++f) {
    Camera& camera = cameras[f].camera;
    camera.width = camera.height = side;
    camera.original_width = camera.original_height = static_cast<int>(side * scale);
    camera.map = {1 / scale, 1 / scale, 0, 0};
    camera.k << focal, 0, (side - 1) / 2.0, 0, focal, (side - 1) / 2.0, 0, 0, 1;
    camera.cam_from_world.translation().x() = -apart * static_cast<double>(f);
  }
  return cameras;
}

TEST(DepthTracks, AreWhatThreeFramesAgreeOn) {
  constexpr int kSide = 64;
  const std::vector<FrameCamera> cameras = cameras_before_a_wall(kSide, 60, 0.4, 2);
  DenseMaps maps(std::make_shared<HostSpace>(), "test");
  for (int f = 0; f < 4; ++f)
    maps.put(f, std::vector<float>(kSide * kSide, f == 1 ? 5.05F : 5), std::vector<float>(kSide * kSide, 2));
  const ReadRgb read_rgb = [](std::size_t frame, std::span<uint8_t> rgb) {
    std::ranges::fill(rgb, static_cast<uint8_t>(10 * frame));
  };
  const ReadMask read_mask = [](std::size_t frame, std::span<uint8_t> used) {
    std::ranges::fill(used, uint8_t{1});
    if (frame == 3) std::fill_n(used.begin(), kSide * kSide / 2, uint8_t{0});  // the upper half
  };
  const std::vector<FrameView> seen(4, FrameView{0, kSide, 0, kSide});
  const std::vector<Track> none;
  const ExportInput input{cameras, none, {}, &maps, seen, kSide, read_mask, FrameWork{}, read_rgb};
  const std::vector<Track> tracks = depth_tracks(input);
  ASSERT_GT(tracks.size(), 400U);
  bool all_four = false;
  for (const Track& track : tracks) {
    ASSERT_GE(track.observations.size(), 3U);
    all_four |= track.observations.size() == 4;
    // A frame's depth is 1 % off: the point lies between, and the observations are a little off.
    EXPECT_NEAR(track.point_in_world.z(), 5 + 0.05 / static_cast<double>(track.observations.size()), 0.03);
    double error = 0;
    bool in_frame_1 = false;
    for (const Observation& at : track.observations) {
      const Camera& camera = cameras[static_cast<std::size_t>(at.frame)].camera;
      const Eigen::Vector2d pixel = camera.project(camera.cam_from_world * track.point_in_world);
      error +=
          (Eigen::Vector2d(camera.map.original_x(pixel.x()), camera.map.original_y(pixel.y())) - at.pixel)
              .norm();
      EXPECT_FALSE(at.frame == 3 && at.pixel.y() < kSide - 2) << "masked";
      in_frame_1 |= at.frame == 1;
    }
    EXPECT_NEAR(track.error_px, error / static_cast<double>(track.observations.size()), 1e-9);
    EXPECT_LT(track.error_px, 0.2);
    if (!in_frame_1) {
      EXPECT_LT(track.error_px, 1e-4);
    }
  }
  EXPECT_TRUE(all_four);

  maps.put_values(1, std::vector<float>(kSide * kSide, 5.5F));  // 10 % off: no frame agrees with it
  for (const Track& track : depth_tracks(input)) {
    for (const Observation& at : track.observations) EXPECT_NE(at.frame, 1);
  }
}

TEST(DepthTracks, AreSeenFromTwoPlaces) {
  constexpr int kSide = 64;
  const auto count = [&](double apart) {
    std::vector<FrameCamera> cameras = cameras_before_a_wall(kSide, 60, 0, 1);
    cameras[3].camera.cam_from_world.translation().x() = -apart;
    DenseMaps maps(std::make_shared<HostSpace>(), "test");
    for (int f = 0; f < 4; ++f)
      maps.put(f, std::vector<float>(kSide * kSide, 5), std::vector<float>(kSide * kSide, 2));
    const ReadRgb read_rgb = [](std::size_t, std::span<uint8_t> rgb) { std::ranges::fill(rgb, uint8_t{1}); };
    const std::vector<FrameView> seen(4, FrameView{0, kSide, 0, kSide});
    const std::vector<Track> none;
    return depth_tracks({cameras, none, {}, &maps, seen, kSide, {}, FrameWork{}, read_rgb}).size();
  };
  EXPECT_EQ(count(0), 0U);
  EXPECT_EQ(count(0.01), 0U);  // .11 degrees
  EXPECT_GT(count(0.1), 400U);
}

TEST(DepthTracks, JoinOthersInFramesThatThoseHoldWeakly) {
  constexpr int kSide = 160;
  std::vector<FrameCamera> cameras = cameras_before_a_wall(kSide, 150, 0.2, 1);
  DenseMaps maps(std::make_shared<HostSpace>(), "test");
  for (int f = 0; f < 4; ++f)
    maps.put(f, std::vector<float>(kSide * kSide, 5), std::vector<float>(kSide * kSide, 2));
  const ReadRgb read_rgb = [](std::size_t, std::span<uint8_t> rgb) { std::ranges::fill(rgb, uint8_t{1}); };
  const std::vector<FrameView> seen(4, FrameView{0, kSide, 0, kSide});
  const auto beside = [&](std::size_t of_three, std::size_t of_all) {
    std::vector<Track> tracks(of_three, Track{{0, 0, 5}, {}, 0, {{0, {0, 0}}, {1, {0, 0}}, {2, {0, 0}}}});
    tracks.insert(tracks.end(), of_all,
                  Track{{0, 0, 5}, {}, 0, {{0, {0, 0}}, {1, {0, 0}}, {2, {0, 0}}, {3, {0, 0}}}});
    return tracks_beside({cameras, tracks, {}, &maps, seen, kSide, {}, FrameWork{}, read_rgb});
  };
  EXPECT_TRUE(beside(10, 3000).empty());
  const std::vector<Track> found = beside(3100, 2600);
  const auto in_frame = [](int frame) {
    return [frame](const Track& track) {
      return std::ranges::count(track.observations, frame, &Observation::frame) == 1;
    };
  };
  EXPECT_EQ(found.size(), 400U);
  EXPECT_TRUE(std::ranges::all_of(found, in_frame(3)));
  EXPECT_GT(beside(0, 0).size(), 2000U);  // all
  // Where depths differ by 1 %, what agrees worst has no part.
  maps.put_values(3, std::vector<float>(kSide * kSide, 5.05F));
  cameras[3].camera.cam_from_world.translation().x() = -3.5;
  const auto agrees = [](const Track& track) { return track.error_px <= 0.2; };
  EXPECT_FALSE(std::ranges::all_of(beside(0, 0), agrees));
  EXPECT_TRUE(std::ranges::all_of(beside(3100, 2600), agrees));
  EXPECT_FALSE(beside(3100, 2600).empty());
}

}  // namespace
}  // namespace vggt
