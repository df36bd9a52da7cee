#include "app/run/reconstruct.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "app/run/attention_cache.h"
#include "app/run/device.h"
#include "app/run/frame_input.h"
#include "app/run/model_loader.h"
#include "app/report/picture.h"
#include "app/report/report.h"
#include "app/run/scene_sink.h"
#include "app/scene/scene_filters.h"
#include "app/run/run_plan.h"
#include "app/events/stop.h"
#include "app/report/summary.h"
#include "io/frames/image_writer.h"

namespace vggt {
namespace {

/// A picture is what frames can be too: it must not replace one, nor become one of the next run.
void keep_picture_apart(const Options& options, const Setup& setup, const FrameSet& frames) {
  if (!setup.outputs.picture) return;
  namespace fs = std::filesystem;
  const fs::path source = options.frames, picture = fs::absolute(*setup.outputs.picture);
  std::error_code ignored;  // where the picture's folder does not exist yet
  if (fs::is_directory(source) && fs::equivalent(source, picture.parent_path(), ignored)) {
    throw std::invalid_argument("picture: " + options.picture + " would lie among the frames");
  }
  std::vector<fs::path> listed;
  for (const Frame& frame : frames.frames) listed.push_back(source.parent_path() / frame.file);
  check_apart({picture}, listed);
}

FrameSet find_frames(const Options& options, const Setup& setup, Console& console) {
  FrameSet frames = load_frames(frame_options(options, setup.config), [&](int done, int total) {
    check_stop();
    console.progress("frames", "frames", done, total);
  });
  for (const std::string& warning : frames.warnings) console.warn(warning);
  keep_picture_apart(options, setup, frames);
  check_inside(setup.queries, frames.width, frames.height, options.query_points);
  return frames;
}

std::string model_text(const Setup& setup) {
  return setup.weights.path().filename().string() + " on " + device_name(setup.device) + " in " +
         precision_name(setup.precision) + ", heads: " + heads_text(setup.heads.run);
}

void describe(const Options& options, const Setup& setup, Console& console) {
  check_writable(setup.outputs.all());
  const FrameSet frames = find_frames(options, setup, console);
  console.result("frames:    " + frames_text(frames.frames.size(), frames.width, frames.height));
  for (const Frame& frame : frames.frames) console.detail("  " + frame.file);
  console.result("model:     " + setup.weights.path().string());
  console.result("heads:     " + heads_text(setup.heads.run));
  if (setup.heads.run.camera) {
    console.result(std::string("poses:     camera head") +
                   (setup.bundle_adjust ? ", then adjusted to the images" : ""));
  }
  console.result("device:    " + device_name(setup.device));
  console.result("precision: " + precision_name(setup.precision));
  console.result(std::string("attention: ") + variant_name(setup.attention));
  const MemoryEstimate memory =
      estimate_memory(setup.config, setup.heads.run, setup.precision,
                      static_cast<int64_t>(frames.frames.size()), frames.height, frames.width);
  console.result("memory:    " + memory_text(memory.weights, memory.work));
  for (const auto& path : setup.outputs.all()) {
    const bool without_cloud = path == setup.outputs.cloud && setup.heads.cloud == CloudSource::none;
    if (!without_cloud) console.result("output:    " + path.string());
  }
}

const char* unit_of(const std::string& stage) {
  if (stage == "aggregator") return "blocks";
  return stage == "camera_head" || stage == "track_head" ? "iterations" : "frames";
}

void run_network(Vggt& model, const Setup& setup, const FrameSet& frames, Results& results, StageTimes& times,
                 Console& console) {
  const c10::OptionalDeviceGuard guard(setup.device.is_cuda() ? std::optional(setup.device) : std::nullopt);
  at::Tensor queries;
  if (setup.heads.run.tracks) {
    const auto count = static_cast<int64_t>(setup.queries.size());
    queries = at::empty({count, 2}, at::kFloat);  // [Q,2]
    std::copy_n(setup.queries.front().data(), 2 * count, queries.data_ptr<float>());
  }
  times.restart();
  model.run(provide_frames(frames), queries, results.sink(), [&](const StageReport& report) {
    check_stop();
    if (report.total == 0) return;
    wait_for(setup.device);  // a GPU runs behind: times, progress and stopping would be those of the launches
    if (report.done > 0) times.count(report.stage);
    console.progress(report.stage, unit_of(report.stage), report.done, report.total);
  });
}

void warn_of_lost_frames(const FrameSet& frames, const std::vector<View>& views, Console& console) {
  constexpr int kNamed = 3;
  int lost = 0;
  std::string names;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].valid || ++lost > kNamed) continue;
    names += (lost > 1 ? ", " : "") + frames.frames[i].file;
  }
  if (lost == 0) return;
  if (lost > kNamed) names += ", ...";
  console.warn(std::to_string(lost) + " of " + std::to_string(views.size()) +
               " cameras came out without a finite pose and a field of view above 0, their frames give no "
               "points: " +
               names);
}

Report make_report(const Options& options, const Setup& setup, const FrameSet& frames,
                   const BuiltScene* scene, const std::string& adjustment, const Console& console) {
  Report report;
  report.options = options;
  report.weights = setup.weights.path().string();
  report.device = device_name(setup.device);
  report.precision = precision_name(setup.precision);
  report.heads = heads_text(setup.heads.run);
  if (setup.heads.run.camera) report.poses = "camera head" + adjustment;
  report.notes = setup.heads.notes;
  report.warnings = console.warnings();
  report.network_width = frames.width;
  report.network_height = frames.height;
  for (const Frame& frame : frames.frames) report.frames_used.push_back(frame.file);
  report.frames_skipped = frames.warnings;
  if (scene) {
    report.cloud_source = setup.heads.cloud == CloudSource::depth ? "depth" : "point head";
    report.filters = scene->filters;
    report.conf_threshold = scene->conf_threshold;
    report.median_depth = scene->median_depth;
    report.points = static_cast<int64_t>(scene->cloud.points.size());
  }
  report.peak_device_bytes = peak_device_bytes(setup.device);
  report.versions = library_versions();
  report.versions.merge(torch_versions());
  return report;
}

void write_scene(const Options& options, const Setup& setup, const FrameSet& frames,
                 const std::vector<View>& views, const BuiltScene* scene, StagedFiles& files) {
  const OutputPaths& outputs = setup.outputs;
  if (!outputs.cloud) return;
  if (scene) files.write(*outputs.cloud, [&](const auto& place) { write_ply(place, scene->cloud); });
  std::vector<SceneCamera> cameras;
  if (setup.heads.run.camera)
    cameras = scene_cameras(frames, views, scene ? scene->mean_confidence : std::vector<double>());
  if (outputs.picture) {
    const auto [width, height] = parse_picture_size(options.picture_size, "picture-size");
    const Picture picture = draw_picture(scene ? scene->cloud : PointCloud(), cameras, width, height);
    files.write(*outputs.picture, [&](const auto& place) { write_image(place, width, height, picture.rgb); });
  }
  if (!setup.heads.run.camera) return;
  files.write(*outputs.cameras, [&](const auto& place) { write_cameras_json(place, cameras); });
  files.write(*outputs.trajectory, [&](const auto& place) { write_tum(place, cameras); });
}

std::optional<BuiltScene> filtered_scene(const Options& options, Results& results, StageTimes& times,
                                         Console& console) {
  times.restart();
  std::optional<BuiltScene> scene = results.scene();
  times.count("scene");
  if (!scene) return scene;
  check_stop();
  filter_cloud(*scene, {options.voxel, parse_outliers(options.outliers, "outliers"), options.max_points,
                        options.seed});
  times.count("filters");
  for (const FilterCount& filter : scene->filters) {
    console.detail(filter_text(filter));
  }
  if (scene->cloud.points.empty()) console.warn("the cloud has no points");
  return scene;
}

}  // namespace

void reconstruct(const Options& options, Console& console) {
  StageTimes times;
  const Setup setup = set_up(options);
  check_apart(setup.outputs.all(), {options.frames, setup.weights.path(), options.query_points});
  for (const std::string& note : setup.heads.notes) console.info(note);
  if (options.dry_run) return describe(options, setup, console);
  StagedFiles files(setup.outputs.all());

  TunedAttention tuned(setup.device, !options.no_autotune);
  ModelLoader loader(setup.weights, setup.config,
                     {.device = setup.device,
                      .precision = setup.precision,
                      .heads = setup.heads.run,
                      .attention = setup.attention,
                      .tuner = tuned.tuner()});
  times.restart();
  const FrameSet frames = find_frames(options, setup, console);
  times.count("frames");
  console.info(frames_text(frames.frames.size(), frames.width, frames.height) + "; " + model_text(setup));
  Vggt model = loader.wait(console);
  times.add("weights", loader.seconds());

  Results results(options, setup, frames, times);
  if (const auto& path = setup.outputs.predictions) results.save_predictions(files.staged(*path), *path);
  run_network(model, setup, frames, results, times, console);
  tuned.save();
  std::string adjustment;
  if (setup.bundle_adjust) {
    const AdjustedScene adjusted = results.adjust(console);
    const std::string line = "cameras and depth " + adjusted.summary;
    adjusted.changed || options.bundle_adjust == "auto" ? console.info(line) : console.warn(line);
    adjustment = ", " + adjusted.summary;
  }
  warn_of_lost_frames(frames, results.views(), console);
  const std::optional<BuiltScene> scene = filtered_scene(options, results, times, console);

  write_scene(options, setup, frames, results.views(), scene ? &*scene : nullptr, files);
  results.finish_predictions();
  times.count("write");
  if (setup.outputs.report) {
    Report report = make_report(options, setup, frames, scene ? &*scene : nullptr, adjustment, console);
    report.stage_seconds = times.stages();
    report.total_seconds = times.total();
    files.write(*setup.outputs.report, [&](const auto& place) { write_report(place, report); });
  }
  check_stop();
  files.commit();
  if (scene) {
    console.result(scene_text(setup.outputs.cloud->string(), scene->cloud.points.size(), times.total()));
  }
  if (setup.outputs.picture) console.result(setup.outputs.picture->string() + ": picture");
  if (setup.outputs.predictions) console.result(setup.outputs.predictions->string() + ": predictions");
}

}  // namespace vggt
