// Planted faults are found in a room of four painted walls, whose depth and cameras are known exactly, and a
// whole one gives no warning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "app/health/scene_health.h"
#include "app/health/trajectory_health.h"

namespace vggt {
namespace {

using Eigen::Vector3d;

constexpr int kWidth = 112, kHeight = 84;

/// Smooth noise in [0,1] on a wall.
double paint(uint32_t seed, double u, double v) {
  const auto corner = [&](int x, int y) {
    uint32_t h =
        seed * 0x9E3779B9U + static_cast<uint32_t>(x) * 0x85EBCA6BU + static_cast<uint32_t>(y) * 0xC2B2AE35U;
    h ^= h >> 15;
    h *= 0x2C1B3C6DU;
    h ^= h >> 12;
    h *= 0x297A2D39U;
    return static_cast<double>((h ^ h >> 15) & 0xFFFFU) / 65535;
  };
  const double x = std::floor(u), y = std::floor(v), a = u - x, b = v - y;
  const int i = static_cast<int>(x), j = static_cast<int>(y);
  return (1 - b) * ((1 - a) * corner(i, j) + a * corner(i + 1, j)) +
         b * ((1 - a) * corner(i, j + 1) + a * corner(i + 1, j + 1));
}

/// A box of 4 × 3 × 4 around the origin, seen from inside.
struct Room {
  uint32_t seed = 1;

  /// Distance along the ray to a wall, and the wall's brightness there.
  std::pair<double, double> look(const Vector3d& from, const Vector3d& ray) const {
    const Vector3d half(2, 1.5, 2);
    double nearest = 1e9;
    int wall = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const double t = (std::copysign(half[axis], ray[axis]) - from[axis]) / ray[axis];
      if (t > 0 && t < nearest) {
        nearest = t;
        wall = 2 * axis + (ray[axis] > 0);
      }
    }
    const Vector3d at = from + nearest * ray;
    const int axis = wall / 2;
    const double u = at[(axis + 1) % 3], v = at[(axis + 2) % 3];
    const uint32_t own = seed * 16 + static_cast<uint32_t>(wall);
    return {nearest, 0.6 * paint(own, 40 + 4 * u, 40 + 4 * v) + 0.4 * paint(own + 8, 90 + 9 * u, 90 + 9 * v)};
  }
};

/// Frames of rooms, with their cameras: what is seen is in `room`, where the camera is taken to be in
/// `camera`.
struct Shots {
  std::vector<Room> rooms;
  std::vector<Camera> seen_by, cameras;
  std::vector<bool> black;

  void add(const Room& room, const Camera& seen, const Camera& taken) {
    rooms.push_back(room);
    seen_by.push_back(seen);
    cameras.push_back(taken);
    black.push_back(false);
  }

  template <class Take>
  void each_pixel(int frame, Take&& take) const {
    const Camera& camera = seen_by[static_cast<std::size_t>(frame)];
    const Eigen::Matrix3d world_from_cam = camera.cam_from_world.linear().transpose();
    for (int i = 0; i < kWidth * kHeight; ++i) {
      const Vector3d ray = world_from_cam * camera.ray({i % kWidth, i / kWidth});
      const auto [depth, brightness] = rooms[static_cast<std::size_t>(frame)].look(camera.center(), ray);
      take(static_cast<std::size_t>(i), depth, brightness);
    }
  }

  HealthInput input(bool with_depth = true) const {
    HealthInput input;
    for (std::size_t i = 0; i < cameras.size(); ++i) input.files.push_back("f" + std::to_string(i) + ".jpg");
    input.cameras = cameras;
    input.readers = {kWidth, kHeight, std::vector<FrameView>(cameras.size(), {0, kWidth, 0, kHeight}),
                     {},     {},      {}};
    input.readers.read_rgb = [this](std::size_t frame, std::span<uint8_t> rgb) {
      each_pixel(static_cast<int>(frame), [&](std::size_t i, double, double brightness) {
        const double value = black[frame] ? static_cast<double>(i % 3) : 20 + 200 * brightness;
        for (std::size_t c = 0; c < 3; ++c) rgb[i + c * kWidth * kHeight] = static_cast<uint8_t>(value);
      });
    };
    if (!with_depth) return input;
    input.readers.read_depth = [this](int frame, std::span<float> depth) {
      each_pixel(frame, [&](std::size_t i, double value, double) { depth[i] = static_cast<float>(value); });
    };
    input.readers.read_confidence = [](int frame, std::span<float> confidence) {
      for (std::size_t i = 0; i < confidence.size(); ++i)
        confidence[i] = 5 + 0.1F * static_cast<float>(frame) + 0.01F * static_cast<float>(i % 100);
    };
    return input;
  }
};

/// Looks from (x, 0, z) in a direction about the vertical.
Camera camera_at(double x, double z, double yaw) {
  Camera camera;
  camera.width = kWidth;
  camera.height = kHeight;
  camera.k << 90, 0, kWidth / 2.0, 0, 90, kHeight / 2.0, 0, 0, 1;
  const Eigen::AngleAxisd turn(yaw, Vector3d::UnitY());
  Eigen::Isometry3d world_from_cam = Eigen::Isometry3d::Identity();
  world_from_cam.linear() = turn.toRotationMatrix();
  world_from_cam.translation() = Vector3d(x, 0, z);
  camera.cam_from_world = world_from_cam.inverse();
  return camera;
}

Camera on_the_way(int i) {
  return camera_at(-0.8 + 0.2 * i, -1, 0.05 * i);
}

Shots whole(int frames = 8) {
  Shots shots;
  for (int i = 0; i < frames; ++i) shots.add({1}, on_the_way(i), on_the_way(i));
  return shots;
}

std::vector<std::string> kinds(const SceneHealth& health) {
  std::vector<std::string> kinds;
  for (const HealthWarning& warning : health.warnings) kinds.push_back(warning.kind);
  return kinds;
}

TEST(Health, OfAWholeSceneIsGood) {
  const SceneHealth health = assess_scene(whole().input());
  EXPECT_TRUE(health.warnings.empty()) << health.warnings.front().text;
  EXPECT_EQ(health.parts, 1);
  EXPECT_GT(health.agreement, 0.95);
  for (const FrameHealth& frame : health.frames) {
    EXPECT_GT(frame.overlap, 0.8);
    EXPECT_GT(frame.link, 0.6);
    EXPECT_EQ(frame.part, 0);
  }
  int64_t counted = 0;
  for (const int64_t count : health.confidence.counts) counted += count;
  EXPECT_GT(counted, 1000);
}

TEST(Health, NamesAFrameOfAnotherScene) {
  Shots shots = whole();
  shots.rooms[3].seed = 7;  // lies among the others, as a network would put it
  const SceneHealth health = assess_scene(shots.input());
  ASSERT_EQ(kinds(health), std::vector<std::string>{"apart"});
  EXPECT_EQ(health.warnings[0].first, 3);
  EXPECT_EQ(health.warnings[0].last, 3);
  EXPECT_EQ(health.warnings[0].text,
            "f3.jpg sees nothing that the others see, so that its place among them is a guess: is it "
            "blurred, or turned? Else take more photographs between f2.jpg and f3.jpg, and between f3.jpg "
            "and f4.jpg, or leave it out");
}

TEST(Health, NamesABlackFrame) {
  Shots shots = whole();
  shots.black[5] = true;
  const SceneHealth health = assess_scene(shots.input());
  ASSERT_EQ(kinds(health), std::vector<std::string>{"blank"});
  EXPECT_EQ(health.warnings[0].first, 5);
}

TEST(Health, NamesCamerasThatFewMatchesHoldUnlessThereIsMoreToSayOfThem) {
  Shots shots = whole();
  shots.black[5] = true;
  HealthInput input = shots.input();
  input.weak_frames = {5};
  EXPECT_EQ(kinds(assess_scene(input)), std::vector<std::string>{"blank"});
  input.weak_frames = {1, 5};
  const SceneHealth health = assess_scene(input);
  ASSERT_EQ(kinds(health), (std::vector<std::string>{"blank", "few matches"}));
  EXPECT_EQ(health.warnings[1].first, -1);
  EXPECT_EQ(health.warnings[1].text, "few matches hold the camera of f1.jpg, which may be wrong");
}

TEST(Health, NamesTheSmallerSideOfAGap) {
  Shots shots = whole(6);
  for (int i = 0; i < 3; ++i) {
    const Camera turned = camera_at(0.2 * i, 1, std::numbers::pi + 0.05 * i);
    shots.add({1}, turned, turned);
  }
  const SceneHealth health = assess_scene(shots.input());
  ASSERT_EQ(kinds(health), std::vector<std::string>{"apart"});
  EXPECT_EQ(health.warnings[0].first, 6);
  EXPECT_EQ(health.warnings[0].last, 8);
  EXPECT_NE(
      health.warnings[0].text.find("take more photographs between f5.jpg and f6.jpg, or leave them out"),
      std::string::npos)
      << health.warnings[0].text;
  EXPECT_EQ(health.parts, 2);
}

TEST(Health, NamesAFrameThatIsPlacedWrongly) {
  Shots shots = whole();
  shots.cameras[4] = camera_at(-3, 9, 0.2);
  const SceneHealth health = assess_scene(shots.input());
  ASSERT_EQ(health.warnings.size(), 1u);
  EXPECT_EQ(health.warnings[0].first, 4);
  EXPECT_EQ(health.warnings[0].last, 4);
  EXPECT_GT(health.frames[4].step, 8);
}

TEST(Health, WarnsOfATurnOnTheSpot) {
  Shots shots;
  for (int i = 0; i < 6; ++i) shots.add({1}, camera_at(0, -1, 0.08 * i), camera_at(0, -1, 0.08 * i));
  const SceneHealth health = assess_scene(shots.input());
  ASSERT_EQ(kinds(health), std::vector<std::string>{"one place"});
  EXPECT_EQ(health.warnings[0].first, -1);
}

TEST(Health, TracksConnectWhatDepthDoesNot) {
  Shots shots = whole();
  shots.rooms[3].seed = 7;
  HealthInput input = shots.input();
  for (int i = 0; i < 40; ++i) {
    Track track;
    track.point_in_world = Vector3d(0.01 * i, 0.02 * i, 2);
    for (const int frame : {2, 3, 4}) {
      const Camera& camera = shots.cameras[static_cast<std::size_t>(frame)];
      const Eigen::Vector2d at = camera.project(camera.cam_from_world * track.point_in_world);
      track.observations.push_back({frame, at + Eigen::Vector2d(frame == 3 ? 2 : 0, 0)});
    }
    input.tracks.push_back(track);
  }
  const SceneHealth health = assess_scene(input);
  EXPECT_EQ(health.parts, 1);
  EXPECT_EQ(health.frames[3].tracks, 40);
  EXPECT_NEAR(health.frames[3].reprojection_px, 2, 1e-9);
  EXPECT_NEAR(health.frames[2].reprojection_px, 0, 1e-9);
}

TEST(Health, WorksWithOneFrameWithoutDepthAndWithoutCameras) {
  EXPECT_TRUE(assess_scene(whole(1).input()).warnings.empty());
  const SceneHealth without_depth = assess_scene(whole().input(false));
  EXPECT_TRUE(without_depth.warnings.empty());
  EXPECT_EQ(without_depth.parts, 0);
  const Shots shots = whole();
  HealthInput without_cameras = shots.input();
  without_cameras.cameras.clear();
  EXPECT_TRUE(assess_scene(without_cameras).warnings.empty());
  HealthInput invalid = shots.input();
  invalid.cameras[2].valid = false;
  const SceneHealth health = assess_scene(invalid);
  EXPECT_TRUE(health.warnings.empty());
  EXPECT_EQ(health.frames[2].part, -1);
}

TEST(Health, IsTheSameOnAnyNumberOfThreads) {
  Shots shots = whole();
  shots.rooms[6].seed = 4;
  HealthInput input = shots.input();
  input.work.threads = 1;
  const SceneHealth one = assess_scene(input);
  input.work.threads = 3;
  const SceneHealth three = assess_scene(input);
  ASSERT_EQ(one.warnings.size(), three.warnings.size());
  for (std::size_t i = 0; i < one.frames.size(); ++i) {
    EXPECT_EQ(one.frames[i].agreement, three.frames[i].agreement);
    EXPECT_EQ(one.frames[i].link, three.frames[i].link);
  }
}

TEST(Jumps, AreThereAndBackOnASteadyWay) {
  std::vector<Camera> cameras;
  for (int i = 0; i < 12; ++i) cameras.push_back(camera_at(0.1 * i, 0, 0));
  EXPECT_TRUE(jumps_of(cameras).empty());
  cameras[6] = camera_at(0.6, 3, 0);
  EXPECT_EQ(jumps_of(cameras), std::vector<int>{6});
  // A way that is cut is no jump, and photographs in any order have no way.
  for (int i = 6; i < 12; ++i) cameras[static_cast<std::size_t>(i)] = camera_at(0.1 * i, 3, 0);
  EXPECT_TRUE(jumps_of(cameras).empty());
  for (int i = 0; i < 12; ++i)
    cameras[static_cast<std::size_t>(i)] = camera_at(std::fmod(7.3 * i, 5), std::fmod(3.7 * i, 4), 0);
  EXPECT_TRUE(jumps_of(cameras).empty());
}

}  // namespace
}  // namespace vggt
