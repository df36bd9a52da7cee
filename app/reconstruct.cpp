#include "app/reconstruct.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <optional>

#include "app/device.h"
#include "app/frame_input.h"
#include "app/heads.h"
#include "app/model_loader.h"
#include "app/outputs.h"
#include "app/predictions.h"
#include "app/query_points.h"
#include "app/report.h"
#include "app/scene_filters.h"
#include "app/stop.h"
#include "app/summary.h"
#include "app/weights_path.h"

namespace vggt {
namespace {

/// What is settled before any work: everything that a wrong option or weight file can spoil.
struct Setup {
  OutputPaths outputs;
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  WeightFile weights;
  Config config;
  HeadChoice heads;
  QueryPoints queries;
};

Setup set_up(const Options& options) {
  OutputPaths outputs = plan_outputs(options.out, options.save_predictions);
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  const at::Device device = choose_device(options.device);
  const Precision precision = choose_precision(options.precision, device);
  WeightFile weights = WeightFile::open(options.weights.empty() ? default_weights().string() : options.weights);
  const TensorShapes shapes = shapes_of(weights);
  Config config = read_config(weights.config_json(), shapes);
  HeadChoice heads = choose_heads(options, heads_in(shapes), outputs.names_cloud);
  QueryPoints queries = options.query_points.empty() ? QueryPoints{} : read_query_points(options.query_points);
  return {std::move(outputs), device, precision, std::move(weights), std::move(config), std::move(heads), std::move(queries)};
}

FrameSet find_frames(const Options& options, const Setup& setup, Console& console) {
  FrameSet frames = load_frames(frame_options(options, setup.config), [&](int done, int total) {
    check_stop();
    console.progress("frames", "frames", done, total);
  });
  for (const std::string& warning : frames.warnings) console.warn(warning);
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
  console.result("device:    " + device_name(setup.device));
  console.result("precision: " + precision_name(setup.precision));
  const MemoryEstimate memory = estimate_memory(setup.config, setup.heads.run, setup.precision,
                                                static_cast<int64_t>(frames.frames.size()), frames.height, frames.width);
  console.result("memory:    " + memory_text(memory.weights, memory.work));
  for (const auto& path : setup.outputs.all()) {
    const bool without_cloud = path == setup.outputs.cloud && setup.heads.cloud == CloudSource::none;
    if (!without_cloud) console.result("output:    " + path.string());
  }
}

/// Takes what the network gives: hands it to the scene builder and the predictions file, and keeps the cameras.
class Results {
 public:
  Results(const Options& options, const Setup& setup, const FrameSet& frames, StageTimes& times)
      : setup_(setup), frames_(frames), times_(times) {
    if (setup.heads.cloud == CloudSource::none) return;
    const SceneOptions scene = {options.conf_percentile, options.conf_threshold, options.mask_black,
                                options.mask_white, options.depth_edge};
    builder_.emplace(scene, frames.width, frames.height, frame_views(frames));
  }

  void save_predictions(const std::filesystem::path& path) {
    const Heads& heads = setup_.heads.run;
    const auto count = static_cast<int64_t>(frames_.frames.size());
    predictions_.emplace(path, PredictionShapes{count, frames_.height, frames_.width,
                                                heads.tracks ? static_cast<int64_t>(setup_.queries.size()) : 0,
                                                heads.camera, heads.depth, heads.points});
    for (int64_t i = 0; i < count; ++i) {
      const at::Tensor pixels = frame_pixels(frames_, i, 1);  // [1,3,H,W]
      save("images", i, pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(255) : pixels);
    }
  }

  Sink sink() {
    Sink sink;
    const Heads& heads = setup_.heads.run;
    if (heads.camera) sink.cameras = [this](const CameraPrediction& p) { take_cameras(p); };
    if (heads.depth) sink.depth = [this](const DensePrediction& p) { take_depth(p); };
    if (heads.points) sink.points = [this](const DensePrediction& p) { take_points(p); };
    if (heads.tracks) sink.tracks = [this](const TrackPrediction& p) { take_tracks(p); };
    return sink;
  }

  const std::vector<View>& views() const { return views_; }
  std::optional<BuiltScene> scene() { return builder_ ? std::optional(builder_->finish()) : std::nullopt; }
  void finish_predictions() {
    if (predictions_) predictions_->close();
  }

 private:
  void take_cameras(const CameraPrediction& p) {
    times_.restart();
    const at::Tensor pose = fp32(p.pose_enc), extrinsic = fp32(p.extrinsic), intrinsic = fp32(p.intrinsic);
    views_ = views_from(pose.const_data_ptr<float>(), extrinsic.const_data_ptr<float>(),
                        intrinsic.const_data_ptr<float>(), static_cast<int>(frames_.frames.size()));
    if (builder_) builder_->set_views(views_);
    save("pose_enc", 0, pose);
    save("extrinsic", 0, extrinsic);
    save("intrinsic", 0, intrinsic);
    times_.count("scene");
  }

  void take_depth(const DensePrediction& p) {
    times_.count("depth_head");
    const at::Tensor depth = fp32(p.depth), conf = fp32(p.depth_conf);  // [F,H,W]
    save("depth", p.first_frame, depth);
    save("depth_conf", p.first_frame, conf);
    if (setup_.heads.cloud == CloudSource::depth) add(p.first_frame, &depth, nullptr, conf);
    times_.count("scene");
  }

  void take_points(const DensePrediction& p) {
    times_.count("point_head");
    const at::Tensor points = fp32(p.world_points), conf = fp32(p.world_points_conf);  // [F,H,W,3], [F,H,W]
    save("world_points", p.first_frame, points);
    save("world_points_conf", p.first_frame, conf);
    if (setup_.heads.cloud == CloudSource::point_head) add(p.first_frame, nullptr, &points, conf);
    times_.count("scene");
  }

  void take_tracks(const TrackPrediction& p) {
    save("track", 0, fp32(p.track));
    save("track_vis", 0, fp32(p.track_vis));
    save("track_conf", 0, fp32(p.track_conf));
  }

  void add(int64_t first, const at::Tensor* depth, const at::Tensor* points, const at::Tensor& conf) {
    check_stop();
    builder_->add({static_cast<int>(first), static_cast<int>(conf.size(0)),
                   depth ? depth->const_data_ptr<float>() : nullptr,
                   points ? points->const_data_ptr<float>() : nullptr, conf.const_data_ptr<float>()});
  }

  void save(const char* name, int64_t first, const at::Tensor& values) {
    if (predictions_) predictions_->write(name, first, values.size(0), values.const_data_ptr<float>());
  }

  static at::Tensor fp32(const at::Tensor& values) { return values.to(at::kCPU, at::kFloat).contiguous(); }

  const Setup& setup_;
  const FrameSet& frames_;
  StageTimes& times_;
  std::vector<View> views_;
  std::optional<SceneBuilder> builder_;
  std::optional<PredictionsWriter> predictions_;
};

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
    if (report.done > 0) times.count(report.stage);
    console.progress(report.stage, unit_of(report.stage), report.done, report.total);
  });
}

void warn_of_lost_frames(const FrameSet& frames, const std::vector<View>& views, Console& console) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!views[i].valid) {
      console.warn(frames.frames[i].file + ": its camera came out without a finite pose and a field of view above "
                   "0: it gives no points");
    }
  }
}

Report make_report(const Options& options, const Setup& setup, const FrameSet& frames, const BuiltScene* scene,
                   const Console& console) {
  Report report;
  report.options = options;
  report.weights = setup.weights.path().string();
  report.device = device_name(setup.device);
  report.precision = precision_name(setup.precision);
  report.heads = heads_text(setup.heads.run);
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

void write_scene(const Setup& setup, const FrameSet& frames, const std::vector<View>& views,
                 const BuiltScene* scene, StagedFiles& files) {
  const OutputPaths& outputs = setup.outputs;
  if (!outputs.cloud) return;
  if (scene) write_ply(files.staged(*outputs.cloud), scene->cloud);
  if (!setup.heads.run.camera) return;
  const auto cameras = scene_cameras(frames, views, scene ? scene->mean_confidence : std::vector<double>());
  write_cameras_json(files.staged(*outputs.cameras), cameras);
  write_tum(files.staged(*outputs.trajectory), cameras);
}

std::optional<BuiltScene> filtered_scene(const Options& options, Results& results, StageTimes& times,
                                         Console& console) {
  times.restart();
  std::optional<BuiltScene> scene = results.scene();
  times.count("scene");
  if (!scene) return scene;
  check_stop();
  filter_cloud(*scene, {options.voxel, parse_outliers(options.outliers, "outliers"), options.max_points, options.seed});
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
  for (const std::string& note : setup.heads.notes) console.info(note);
  if (options.dry_run) return describe(options, setup, console);
  StagedFiles files(setup.outputs.all());

  ModelLoader loader(setup.weights, setup.config, {setup.device, setup.precision, setup.heads.run});
  times.restart();
  const FrameSet frames = find_frames(options, setup, console);
  times.count("frames");
  console.info(frames_text(frames.frames.size(), frames.width, frames.height) + "; " + model_text(setup));
  Vggt model = loader.wait(console);
  times.add("weights", loader.seconds());

  Results results(options, setup, frames, times);
  if (setup.outputs.predictions) results.save_predictions(files.staged(*setup.outputs.predictions));
  run_network(model, setup, frames, results, times, console);
  warn_of_lost_frames(frames, results.views(), console);
  const std::optional<BuiltScene> scene = filtered_scene(options, results, times, console);

  write_scene(setup, frames, results.views(), scene ? &*scene : nullptr, files);
  results.finish_predictions();
  times.count("write");
  if (setup.outputs.report) {
    Report report = make_report(options, setup, frames, scene ? &*scene : nullptr, console);
    report.stage_seconds = times.stages();
    report.total_seconds = times.total();
    write_report(files.staged(*setup.outputs.report), report);
  }
  check_stop();
  files.commit();
  if (scene) {
    console.result(scene_text(setup.outputs.cloud->string(), scene->cloud.points.size(), times.total()));
  }
  if (setup.outputs.predictions) console.result(setup.outputs.predictions->string() + ": predictions");
}

}  // namespace vggt
