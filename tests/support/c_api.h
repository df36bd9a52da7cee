// The C interface with handles that free themselves, for tests.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/api/vggt_recon.h"

namespace vggt::testing {

struct Close {
  void operator()(vggt_recon_context* context) const { vggt_recon_close(context); }
  void operator()(vggt_recon_scene* scene) const { vggt_recon_free(scene); }
};
using ContextHandle = std::unique_ptr<vggt_recon_context, Close>;
using SceneHandle = std::unique_ptr<vggt_recon_scene, Close>;

inline const std::string kRoom = VGGT_SOURCE_DIR "/examples/room";
inline const std::string kSmall = VGGT_SOURCE_DIR "/weights/vggt-small.ts";

/// A context of the small model on the CPU, with small frames.
inline ContextHandle small_context() {
  vggt_recon_context* context = nullptr;
  EXPECT_EQ(vggt_recon_open(kSmall.c_str(), &context), VGGT_RECON_DONE) << vggt_recon_error(nullptr);
  for (const auto& [name, value] : {std::pair("device", "cpu"), {"max-frames", "3"}, {"width", "112"}})
    EXPECT_EQ(vggt_recon_set_option(context, name, value), VGGT_RECON_DONE);
  return ContextHandle(context);
}

/// Of a folder, with everything in memory.
inline vggt_recon_run_input input_of(const std::string& folder = kRoom) {
  vggt_recon_run_input input = {};
  input.size = sizeof input;
  input.frames = folder.c_str();
  input.results = VGGT_RECON_MAPS | VGGT_RECON_POINTS;
  return input;
}

/// A run that has to end well.
inline SceneHandle run(const ContextHandle& context, const vggt_recon_run_input& input) {
  vggt_recon_scene* scene = nullptr;
  EXPECT_EQ(vggt_recon_run(context.get(), &input, &scene), VGGT_RECON_DONE)
      << vggt_recon_error(context.get());
  return SceneHandle(scene);
}

/// Copies of a scene's arrays, to compare.
struct Copied {
  std::vector<float> depth, confidence, points;
  std::vector<uint8_t> colors;
  std::vector<double> poses;
  bool operator==(const Copied&) const = default;
};

inline Copied copy_of(const SceneHandle& scene) {
  std::size_t shape[3] = {}, count = 0;
  Copied copy;
  const float* depth = vggt_recon_depth(scene.get(), shape);
  const std::size_t pixels = shape[0] * shape[1] * shape[2];
  copy.depth.assign(depth, depth + pixels);
  const float* confidence = vggt_recon_confidence(scene.get(), shape);
  copy.confidence.assign(confidence, confidence + pixels);
  const float* points = vggt_recon_points(scene.get(), &count);
  copy.points.assign(points, points + 3 * count);
  const uint8_t* colors = vggt_recon_colors(scene.get(), &count);
  copy.colors.assign(colors, colors + 3 * count);
  const vggt_recon_camera* cameras = vggt_recon_cameras(scene.get(), &count);
  for (std::size_t i = 0; i < count; ++i)
    copy.poses.insert(copy.poses.end(), cameras[i].cam_from_world, cameras[i].cam_from_world + 16);
  return copy;
}

}  // namespace vggt::testing
