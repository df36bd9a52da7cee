#include "app/run/scene_view.h"

#include <algorithm>

#include "app/report/page_points.h"
#include "app/run/frame_input.h"
#include "io/files/text.h"

namespace vggt {
namespace {

MapReaders readers_of(const SceneView& scene) {
  MapReaders readers{
      scene.frames.width, scene.frames.height, frame_views(scene.frames), scene.frames.read_rgb, {}, {}};
  const SceneBuilder* builder = scene.builder;
  if (!builder) return readers;
  // Without cameras the builder does not know which way depth is.
  if (!scene.cameras.empty())
    readers.read_depth = [builder](int frame, std::span<float> depth) { builder->read_depth(frame, depth); };
  if (readers.read_depth)
    readers.read_confidence = [builder](int frame, std::span<float> values) {
      builder->read_confidence(frame, values);
    };
  return readers;
}

FrameWork work_of(const SceneView& scene) {
  return {scene.plan.frames.threads, [&scene] { scene.events.check_stop(); }};
}

/// Of two places in turn, each frame may have a warning: a person needs some of them.
void tell(const std::vector<HealthWarning>& warnings, const Events& events) {
  constexpr std::size_t kTold = 10;
  for (std::size_t i = 0; i < std::min(warnings.size(), kTold); ++i) events.warn(warnings[i].text);
  if (warnings.size() > kTold)
    events.warn(std::to_string(warnings.size() - kTold) + " more warnings such as these are in the report");
}

/// What a person calls the scene: the file's name, or the folder's where that is the usual one.
std::string scene_name(const OutputPlan& outputs) {
  const std::filesystem::path base =
      std::filesystem::absolute(outputs.paths.base.value_or("scene")).lexically_normal();
  const std::filesystem::path name =
      base.filename() == "scene" ? base.parent_path().filename() : base.filename();
  return printable(name.empty() ? "scene" : name.string());
}

}  // namespace

SceneHealth health_of(const SceneView& scene, const std::vector<Track>& tracks,
                      const std::vector<int>& weak_frames) {
  HealthInput input;
  for (const Frame& frame : scene.frames.frames) input.files.push_back(frame.file);
  for (const FrameCamera& camera : scene.cameras) input.cameras.push_back(camera.camera);
  input.tracks = tracks;
  input.weak_frames = weak_frames;
  input.readers = readers_of(scene);
  input.work = work_of(scene);
  SceneHealth health = assess_scene(input);
  tell(health.warnings, scene.events);
  return health;
}

PageContent page_content(const SceneView& scene) {
  PageContent content;
  content.name = scene_name(scene.plan.outputs);
  content.cameras = scene.cameras;
  // Of enough points each surface has its share, of which the page shows as many everywhere.
  constexpr int64_t kCandidates = 5;
  if (scene.cloud)
    content.cloud = thinned_evenly(scene.cloud->sample(kCandidates * kPagePoints), kPagePoints);
  content.thumbnails = make_thumbnails(readers_of(scene), work_of(scene));
  return content;
}

}  // namespace vggt
