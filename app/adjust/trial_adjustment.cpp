#include "app/adjust/trial_adjustment.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/within_memory.h"

namespace vggt {
namespace {

constexpr int kFrames = 6, kHeight = 168, kWidth = 252;  // of the network's images
constexpr int kScale = 2;                                // of the photographs
constexpr double kFocal = 225;
constexpr int kTimes = 2;
constexpr double kTurn = 0.02, kLonger = 1.03;  // by which the given cameras and focal lengths are off
constexpr std::size_t kPixels = static_cast<std::size_t>(kHeight) * kWidth;

/// Gray from 0 to 1 of a place in the world: blobs of several sizes.
double texture(const Eigen::Vector3d& p) {
  double value = 0;
  for (double f = 5; f < 60; f *= 2.3)
    value += std::sin(f * p.x() + 2 * std::sin(0.4 * f * p.y())) * std::sin(f * (p.y() + 0.6 * p.z()));
  return 0.5 + value / 6;
}

/// The depth of two walls that meet in a corner, along a ray of length 1 in z.
double depth_along(const Eigen::Vector3d& from, const Eigen::Vector3d& ray) {
  double depth = 1e9;
  for (const double side : {-1.0, 1.0}) {
    const Eigen::Vector3d normal(0.5 * side, 0.1, 1);
    const double along = normal.dot(ray);
    if (along > 0) depth = std::min(depth, (3.5 - normal.dot(from)) / along);
  }
  return depth;
}

struct Corner {
  Corner() {
    for (int f = 0; f < kFrames; ++f) {
      Camera& camera = cameras.emplace_back();
      const double angle = 0.28 * (f - kFrames / 2);
      camera.cam_from_world.linear() =
          Eigen::AngleAxisd(angle, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
      camera.cam_from_world.translation() << 0.25 * (kFrames / 2 - f), 0.06 * (f % 3), 0.05 * f;
      camera.k << kFocal, 0, (kWidth - 1) / 2.0, 0, kFocal, (kHeight - 1) / 2.0, 0, 0, 1;
      camera.width = kWidth;
      camera.height = kHeight;
      camera.map.scale_x = camera.map.scale_y = 1.0 / kScale;
      camera.original_width = kScale * kWidth;
      camera.original_height = kScale * kHeight;
      paint(camera);
    }
  }

  void paint(const Camera& camera) {
    std::vector<uint8_t>& pixels = gray.emplace_back(kScale * kScale * kPixels);
    std::vector<float>& map = depth.emplace_back(kPixels);
    const Eigen::Isometry3d world_from_cam = camera.cam_from_world.inverse();
    for (int y = 0; y < kScale * kHeight; ++y) {
      for (int x = 0; x < kScale * kWidth; ++x) {
        const Eigen::Vector2d pixel = Eigen::Vector2d(x + 0.5, y + 0.5) / kScale - Eigen::Vector2d(0.5, 0.5);
        const Eigen::Vector3d ray = world_from_cam.linear() * camera.ray(pixel);
        const double far = depth_along(world_from_cam.translation(), ray);
        pixels[static_cast<std::size_t>(y) * kScale * kWidth + static_cast<std::size_t>(x)] =
            static_cast<uint8_t>(30 + 190 * texture(world_from_cam.translation() + far * ray));
        if (x % kScale == 0 && y % kScale == 0)
          map[static_cast<std::size_t>(y / kScale) * kWidth + static_cast<std::size_t>(x / kScale)] =
              static_cast<float>(far * (1 + 0.05 * std::sin(0.02 * x)));
      }
    }
  }

  MatchInput input() const {
    MatchInput input;
    input.width = kWidth;
    input.height = kHeight;
    input.read_rgb = [this](std::size_t f, std::span<uint8_t> colors) {
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t y = 0; y < kHeight; ++y) {
          for (std::size_t x = 0; x < kWidth; ++x)
            colors[(c * kHeight + y) * kWidth + x] = gray[f][kScale * (y * kScale * kWidth + x)];
        }
      }
    };
    input.read_gray = [this](std::size_t f, std::span<uint8_t> pixels) {
      std::ranges::copy(gray[f], pixels.begin());
    };
    for (const Camera& camera : cameras)
      input.frames.push_back({{0, kWidth, 0, kHeight},
                              camera.map,
                              camera.original_width,
                              camera.original_height,
                              camera.original_width,
                              camera.original_height,
                              {}});
    return input;
  }

  std::vector<Camera> cameras;
  std::vector<std::vector<uint8_t>> gray;
  std::vector<std::vector<float>> depth;  // bent as a network's is
};

/// The cameras as a network gives them: turned, and with another focal length.
std::vector<Camera> given(std::vector<Camera> cameras) {
  for (std::size_t f = 0; f < cameras.size(); ++f) {
    const auto i = static_cast<double>(f);
    const Eigen::Vector3d axis(std::sin(2 * i), std::cos(3 * i), std::sin(5 * i));
    cameras[f].cam_from_world.prerotate(Eigen::AngleAxisd(kTurn, axis.normalized()));
    cameras[f].k(0, 0) *= kLonger;
    cameras[f].k(1, 1) *= kLonger;
  }
  return cameras;
}

}  // namespace

std::optional<AdjustmentTime> time_trial_adjustment(const Events& events) {
  Events silent;
  silent.stop = events.stop;
  AdjustOptions options;
  options.must = true;  // a lack of memory is no time
  AdjustmentTime time{adjustment_work(kFrames, kFrames * kScale * kScale * static_cast<double>(kPixels)),
                      std::numeric_limits<double>::infinity()};
  try {
    const Corner scene;
    const MatchInput input = scene.input();
    const std::vector<Camera> cameras = given(scene.cameras);
    for (int i = 0; i < kTimes; ++i) {
      DenseMaps maps(input.space, "depth");
      for (int f = 0; f < kFrames; ++f) maps.put_values(f, scene.depth[static_cast<std::size_t>(f)]);
      const auto start = std::chrono::steady_clock::now();
      if (!adjust_scene(input, maps, cameras, options, silent).changed) return std::nullopt;
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      time.seconds = std::min(time.seconds, taken.count());
    }
  } catch (const std::exception& error) {
    if (!means_no_memory(error)) throw;
    return std::nullopt;
  }
  return time;
}

}  // namespace vggt
