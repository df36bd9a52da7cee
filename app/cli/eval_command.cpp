#include "app/cli/eval_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "app/eval/eval_inputs.h"
#include "app/eval/eval_report.h"
#include "app/scene/frame_match.h"
#include "app/scene/known_cameras.h"
#include "io/files/atomic_file.h"
#include "io/files/staged_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// Both sides of a comparison, scene by scene.
struct Inputs {
  EvalSide result, truth;
};

std::vector<FrameKey> keys_of(const std::vector<FrameCamera>& frames) {
  std::vector<FrameKey> keys;
  for (const FrameCamera& frame : frames) keys.push_back({frame.file, frame.time_s});
  return keys;
}

template <class T>
std::vector<T> load(const Source<T>& source, const char* what, const Events& events) {
  events.check_stop();
  std::vector<T> loaded = source.load();
  if (loaded.empty()) throw std::invalid_argument(source.path + ": holds no " + what);
  return loaded;
}

/// The number of scenes of which both sides hold `what`; 0 where one side holds none.
template <class T>
std::size_t shared_scenes(const std::vector<Source<T>>& result, const std::vector<Source<T>>& truth,
                          const char* what, EvalReport& report) {
  if (result.empty() != truth.empty()) {
    report.left_out.push_back(std::string(what) + (truth.empty() ? " of the result" : " of the truth"));
  }
  if (result.empty() || truth.empty()) return 0;
  if (result.size() != truth.size()) {
    throw std::invalid_argument(
        fmt::format("eval: {} of {} scenes against {} true ones; the k-th is compared with the k-th", what,
                    result.size(), truth.size()));
  }
  return result.size();
}

/// Adds a scene's match to the count; frames are named with their scene where there are several.
void count_frames(const FrameMatch& match, std::size_t scene, std::size_t scenes, FrameCount& count) {
  const std::string prefix = scenes > 1 ? fmt::format("scene {}: ", scene) : "";
  for (const std::string& name : match.only_result) count.only_result.push_back(prefix + name);
  for (const std::string& name : match.only_truth) count.only_truth.push_back(prefix + name);
  count.matched += static_cast<int>(match.pairs.size());
  count.result += static_cast<int>(match.pairs.size() + match.only_result.size());
  count.truth += static_cast<int>(match.pairs.size() + match.only_truth.size());
}

/// The frames of one side of a scene that have a camera.
std::vector<FrameCamera> load_valid(const Source<FrameCamera>& source, const Events& events) {
  std::vector<FrameCamera> frames = load(source, "poses", events);
  std::erase_if(frames, [](const FrameCamera& frame) { return !frame.camera.valid; });
  return frames;
}

/// The matched frames of all scenes, and the fields of view of those frames for which both sides tell them.
struct MatchedCameras {
  std::vector<std::vector<CameraPair>> scenes;
  std::vector<FovPair> fields_of_view;
};

/// A frame of one side, with what the other side tells of how EXIF turns it.
KnownFrame known_by(const FrameCamera& other, const FrameCamera& frame) {
  return {&frame, other.as_stored ? 0 : other.quarter_turns, other.camera.width, other.camera.height};
}

MatchedCameras load_cameras(const Inputs& inputs, EvalReport& report, const Events& events) {
  const auto &ours = inputs.result.cameras, &theirs = inputs.truth.cameras;
  const std::size_t scenes = shared_scenes(ours, theirs, "poses", report);
  MatchedCameras all{std::vector<std::vector<CameraPair>>(scenes), {}};
  for (std::size_t scene = 0; scene < scenes; ++scene) {
    const std::vector<FrameCamera> result = load_valid(ours[scene], events),
                                   truth = load_valid(theirs[scene], events);
    const FrameMatch match = match_frames(keys_of(result), keys_of(truth));
    if (match.pairs.size() < 2) {
      throw std::invalid_argument(
          fmt::format("eval: only {} of the {} poses of {} match one of the {} of {}; 2 are needed",
                      match.pairs.size(), result.size(), ours[scene].path, truth.size(), theirs[scene].path));
    }
    std::vector<KnownFrame> of_result, of_truth;
    for (const auto& [i, j] : match.pairs) {
      of_result.push_back(known_by(truth[j], result[i]));
      of_truth.push_back(known_by(result[i], truth[j]));
    }
    const std::vector<Camera> found = upright_cameras(of_result), true_ones = upright_cameras(of_truth);
    for (std::size_t i = 0; i < found.size(); ++i) {
      all.scenes[scene].push_back({found[i], true_ones[i]});
      const bool undistorted = !found[i].has_whole_lens || !true_ones[i].has_whole_lens;  // all that is known
      const std::optional<double> fov = found[i].fov_x_rad(undistorted),
                                  true_fov = true_ones[i].fov_x_rad(undistorted);
      if (fov && true_fov) all.fields_of_view.push_back({*fov, *true_fov});
    }
    if (truth_stands_still(all.scenes[scene]))
      events.warn(theirs[scene].path +
                  ": all poses are in one place, so that directions, and distances after Sim(3), are right "
                  "whatever the result is");
    count_frames(match, scene, scenes, report.pose_frames);
  }
  return all;
}

/// What depth maps are known by: the names of their files, else what the cameras of their side are known by,
/// if there are as many cameras as maps.
std::vector<FrameKey> depth_keys(const std::vector<DepthMap>& maps, const EvalSide& side, std::size_t scene) {
  std::vector<FrameKey> keys;
  for (const DepthMap& map : maps) keys.push_back({map.name, std::nullopt});
  if (!keys.front().name.empty() || !side.cameras_named || scene >= side.cameras.size()) return keys;
  const std::vector<FrameCamera> cameras = side.cameras[scene].load();
  if (cameras.size() == keys.size()) keys = keys_of(cameras);
  return keys;
}

void compare_depth(const Inputs& inputs, double max_depth, EvalReport& report, const Events& events) {
  const auto &ours = inputs.result.depth, &theirs = inputs.truth.depth;
  const std::size_t scenes = shared_scenes(ours, theirs, "depth", report);
  if (scenes == 0) return;
  DepthError mean{0, 0, 0, 0};
  const auto count = static_cast<double>(scenes);
  for (std::size_t scene = 0; scene < scenes; ++scene) {
    const std::vector<DepthMap> result = load(ours[scene], "depth", events),
                                truth = load(theirs[scene], "depth", events);
    const FrameMatch match =
        match_frames(depth_keys(result, inputs.result, scene), depth_keys(truth, inputs.truth, scene));
    std::vector<DepthPair> pairs;
    for (const auto& [i, j] : match.pairs) pairs.push_back({&result[i], &truth[j]});
    if (pairs.empty()) throw std::invalid_argument("eval: no depth map has the name of a true one");
    const DepthError error = depth_error(pairs, max_depth);
    mean.abs_rel += error.abs_rel / count;
    mean.delta_1 += error.delta_1 / count;
    mean.scale += error.scale / count;
    mean.coverage += error.coverage / count;
    count_frames(match, scene, scenes, report.depth_frames);
  }
  report.depth = mean;
}

Eigen::Affine3d alignment_of(const std::vector<CameraPair>& cameras) {
  const Eigen::Affine3d truth_from_result = align(cameras);
  if (!(truth_from_result.linear().norm() > 0)) {
    throw std::invalid_argument("cloud: the true cameras tell no scale: they stand in one place");
  }
  return truth_from_result;
}

void compare_clouds(const Inputs& inputs, const std::vector<std::vector<CameraPair>>& cameras,
                    std::optional<double> threshold, EvalReport& report, const Events& events) {
  const auto &ours = inputs.result.clouds, &theirs = inputs.truth.clouds;
  const std::size_t scenes = shared_scenes(ours, theirs, "cloud", report);
  if (scenes == 0) return;
  if (!cameras.empty() && cameras.size() != scenes) {
    throw std::invalid_argument(
        fmt::format("eval: clouds of {} scenes, but cameras of {}", scenes, cameras.size()));
  }
  report.cloud_aligned = !cameras.empty();
  CloudError sum;
  for (std::size_t scene = 0; scene < scenes; ++scene) {
    std::vector<Eigen::Vector3d> result = load(ours[scene], "points", events);
    if (report.cloud_aligned) {
      const Eigen::Affine3d truth_from_result = alignment_of(cameras[scene]);
      for (Eigen::Vector3d& point : result) point = truth_from_result * point;
    }
    const CloudError error = cloud_error(result, load(theirs[scene], "points", events), threshold);
    for (double CloudError::*value :
         {&CloudError::accuracy, &CloudError::completeness, &CloudError::chamfer, &CloudError::precision,
          &CloudError::recall, &CloudError::f_score, &CloudError::threshold}) {
      sum.*value += error.*value / static_cast<double>(scenes);
    }
  }
  report.cloud = sum;
}

/// All files that are read, and those beside them in their folders.
std::vector<fs::path> files_of(const EvalCommand& command) {
  std::vector<fs::path> files;
  for (const auto& paths : {command.result, command.truth}) {
    for (const fs::path path : paths) {
      files.push_back(path);
      if (!fs::is_directory(path)) continue;
      for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
    }
  }
  return files;
}

EvalReport compare(const EvalCommand& command, const Events& events) {
  const Inputs inputs{sort_inputs(command.result, command.depth_unit),
                      sort_inputs(command.truth, command.depth_unit)};
  EvalReport report;
  const MatchedCameras cameras = load_cameras(inputs, report, events);
  if (!cameras.scenes.empty()) report.poses = trajectory_error(cameras.scenes, events);
  if (!cameras.fields_of_view.empty()) report.fov = fov_error(cameras.fields_of_view);
  compare_depth(inputs, command.max_depth, report, events);
  compare_clouds(inputs, cameras.scenes, command.threshold, report, events);
  if (!report.poses && !report.depth && !report.cloud) {
    std::string found;
    for (const std::string& what : report.left_out) found += (found.empty() ? "" : ", ") + what;
    throw std::invalid_argument("eval: nothing to compare: there is only the " + found);
  }
  report.scenes =
      static_cast<int>(std::max({cameras.scenes.size(), report.depth ? inputs.result.depth.size() : 0,
                                 report.cloud ? inputs.result.clouds.size() : 0}));
  return report;
}

}  // namespace

void run_eval_command(const EvalCommand& command, const Events& events) {
  if (!command.json.empty()) {
    check_apart({command.json}, files_of(command));
    check_writable_file(command.json);
  }
  const EvalReport report = compare(command, events);
  events.check_stop();
  std::fputs(to_text(report).c_str(), stdout);
  if (!command.json.empty()) {
    write_atomically(command.json, [&](std::ostream& out) { out << to_json(report); });
  }
}

}  // namespace vggt
