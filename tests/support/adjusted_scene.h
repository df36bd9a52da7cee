// A rendered scene of a few frames, as an adjustment takes it.
#pragma once
#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "app/adjust/adjust_scene.h"

namespace vggt::test {

inline constexpr int kFrames = 5, kHeight = 140, kWidth = 196;
inline constexpr std::size_t kPixels = static_cast<std::size_t>(kHeight) * kWidth;

/// Grey from 0 to 1 of a place in the world: blobs of several sizes.
inline double texture(const Eigen::Vector3d& p) {
  double value = 0;
  for (int octave = 0; octave < 3; ++octave) {
    const double f = 9 * std::pow(2.1, octave);
    value += std::sin(f * p.x() + 2 * std::sin(f * 0.37 * p.y() + octave)) *
             std::sin(f * p.y() + 3 * std::sin(f * 0.29 * p.z()) + f * 0.5 * p.x());
  }
  return 0.5 + value / 6;
}

/// The depth along a ray of length 1 in z: a ball before a slanted wall.
inline double depth_along(const Eigen::Vector3d& from, const Eigen::Vector3d& ray) {
  const Eigen::Vector3d normal = Eigen::Vector3d(0.3, 0.1, -1), ball(0.2, -0.1, 2.2);
  double depth = (normal.dot(Eigen::Vector3d(0, 0, 3.5) - from)) / normal.dot(ray);
  const Eigen::Vector3d offset = from - ball;
  const double a = ray.squaredNorm(), b = ray.dot(offset), c = offset.squaredNorm() - 0.25,
               root = b * b - a * c;
  if (root > 0) depth = std::min(depth, (-b - std::sqrt(root)) / a);
  return depth;
}

struct Scene {
  explicit Scene(double contrast = 180, double gain = 0.06,
                 const Eigen::Vector2d& center = {kWidth / 2.0, kHeight / 2.0}, double k1 = 0,
                 double aspect = 1, const Eigen::Vector3d& place = Eigen::Vector3d::Zero(),
                 int frames = kFrames, double turn = 0.08, double move = 0.2) {
    for (int f = 0; f < frames; ++f) {
      Camera camera;
      const double way = f * (kFrames - 1.0) / (frames - 1), angle = turn * way;
      camera.cam_from_world.linear() =
          Eigen::AngleAxisd(angle, Eigen::Vector3d(0.1, 1, 0).normalized()).toRotationMatrix();
      camera.cam_from_world.translation() << -move * way, 0.2 * move * way * (f % 2), 0.15 * move * way;
      // Upright cameras leave open whether the pixels or the scene are stretched.
      if (aspect != 1)
        camera.cam_from_world.prerotate(Eigen::AngleAxisd(0.4 * way, Eigen::Vector3d::UnitZ()));
      camera.k << 200, 0, center.x(), 0, 200 * aspect, center.y(), 0, 0, 1;
      camera.width = kWidth;
      camera.height = kHeight;
      camera.distortion[0] = k1;
      cameras.push_back(camera);
      rgb.emplace_back(3 * kPixels);
      depth.emplace_back(kPixels);
      const Eigen::Isometry3d world_from_cam = camera.cam_from_world.inverse();
      const Eigen::Vector3d from = world_from_cam.translation();
      for (int y = 0; y < kHeight; ++y) {
        for (int x = 0; x < kWidth; ++x) {
          const Eigen::Vector3d ray = world_from_cam.linear() * camera.ray({x, y});
          const double d = depth_along(from, ray);
          const std::size_t pixel = static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x);
          depth.back()[pixel] = static_cast<float>(d);
          // Exposure changes from frame to frame.
          const double grey = 30 + contrast * (1 - gain * way) * texture(place + from + d * ray);
          for (std::size_t c = 0; c < 3; ++c) rgb.back()[c * kPixels + pixel] = static_cast<uint8_t>(grey);
        }
      }
    }
  }

  MatchInput input() const {
    MatchInput input;
    input.width = kWidth;
    input.height = kHeight;
    input.read_rgb = [this](std::size_t f, std::span<uint8_t> colors) {
      std::ranges::copy(rgb[f], colors.begin());
    };
    for (std::size_t f = 0; f < cameras.size(); ++f)
      input.frames.push_back({{0, kWidth, 0, kHeight}, {}, kWidth, kHeight, 0, 0, {}});
    return input;
  }

  std::vector<Camera> cameras;
  std::vector<std::vector<uint8_t>> rgb;
  std::vector<std::vector<float>> depth;
};

/// An adjustment, and the depth maps after it.
struct Adjusted : AdjustedScene {
  std::vector<std::vector<float>> depth;
};

inline Adjusted adjust(const Scene& scene, const MatchInput& input, const std::vector<Camera>& cameras,
                       const AdjustOptions& options = {}, const Events& events = {}) {
  DenseMaps maps(input.space, "depth");
  const std::vector<float> sure(kPixels, 1);
  for (std::size_t f = 0; f < scene.depth.size(); ++f) maps.put(static_cast<int>(f), scene.depth[f], sure);
  Adjusted result{adjust_scene(input, maps, cameras, options, events), {}};
  DenseMaps::Buffer buffer;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) {
    const std::span<const float> values = maps.values(static_cast<int>(f), buffer);
    result.depth.emplace_back(values.begin(), values.end());
  }
  return result;
}

inline Adjusted adjust(const Scene& scene, const std::vector<Camera>& cameras,
                       const AdjustOptions& options = {}, const Events& events = {}) {
  return adjust(scene, scene.input(), cameras, options, events);
}

/// The cameras as a network might give them: turned, shifted, with another field of view.
inline std::vector<Camera> beside(std::vector<Camera> cameras) {
  for (std::size_t f = 0; f < cameras.size(); ++f) {
    const auto i = static_cast<double>(f);
    cameras[f].k(0, 0) *= 1.03 + 0.005 * std::sin(i);
    cameras[f].k(1, 1) *= 1.03 + 0.005 * std::cos(i);
    if (f == 0) continue;
    const Eigen::Vector3d axis(std::sin(2 * i), std::cos(3 * i), std::sin(5 * i));
    Eigen::Isometry3d& pose = cameras[f].cam_from_world;
    pose.linear() = Eigen::AngleAxisd(0.02, axis.normalized()).toRotationMatrix() * pose.linear();
    pose.translation() += 0.03 * axis;
  }
  return cameras;
}

/// A depth map bent by up to a tenth.
inline void bend(std::vector<float>& depth, double phase) {
  for (std::size_t i = 0; i < depth.size(); ++i) {
    const auto x = static_cast<double>(i % kWidth) / kWidth;
    depth[i] *= static_cast<float>(std::exp(0.1 * std::sin(3 * x + phase)));
  }
}

inline Scene bent_scene() {
  Scene scene;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) bend(scene.depth[f], static_cast<double>(f));
  return scene;
}

struct PoseErrors {
  double turn = 0, direction = 0;  // worst of all pairs, degrees
};

inline PoseErrors pose_errors(const std::vector<Camera>& found, const std::vector<Camera>& truth) {
  PoseErrors worst;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t j = i + 1; j < truth.size(); ++j) {
      const Eigen::Isometry3d a = found[j].cam_from_world * found[i].cam_from_world.inverse(),
                              b = truth[j].cam_from_world * truth[i].cam_from_world.inverse();
      const Eigen::Matrix3d turn = a.linear() * b.linear().transpose();
      const double cosine = a.translation().normalized().dot(b.translation().normalized());
      worst.turn = std::max(worst.turn, Eigen::AngleAxisd(turn).angle() * 180 / M_PI);
      worst.direction = std::max(worst.direction, std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / M_PI);
    }
  }
  return worst;
}

/// Mean of |found / truth - 1| after one scale for all frames.
inline double depth_error(const std::vector<std::vector<float>>& found,
                          const std::vector<std::vector<float>>& truth) {
  double scale = 0, sum = 0, count = 0;
  for (std::size_t f = 0; f < truth.size(); ++f) {
    for (std::size_t i = 0; i < kPixels; ++i, ++count) scale += std::log(found[f][i] / truth[f][i]);
  }
  for (std::size_t f = 0; f < truth.size(); ++f) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      sum += std::abs(found[f][i] / truth[f][i] / std::exp(scale / count) - 1);
    }
  }
  return sum / count;
}

/// The scene as a network might see it that takes the lens for a longer one: farther, deeper, turned less.
inline Scene farther(Scene scene, double factor) {
  for (std::vector<float>& depth : scene.depth) {
    for (float& value : depth) value *= static_cast<float>(factor);
  }
  for (Camera& camera : scene.cameras) {
    camera.k(0, 0) *= factor;
    camera.k(1, 1) *= factor;
    Eigen::AngleAxisd turn(camera.cam_from_world.linear());
    turn.angle() /= factor;
    camera.cam_from_world.linear() = turn.toRotationMatrix();
    camera.cam_from_world.translation().z() *= factor;
  }
  return scene;
}

}  // namespace vggt::test
