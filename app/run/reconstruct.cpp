#include "app/run/reconstruct.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "app/export/export_scene.h"
#include "app/report/picture.h"
#include "app/report/summary.h"
#include "app/run/device.h"
#include "app/run/frame_input.h"
#include "app/run/image_memory.h"
#include "app/run/loaded_model.h"
#include "app/run/memory_limits.h"
#include "app/run/plan_comparison.h"
#include "app/run/process_memory.h"
#include "app/run/rank_run.h"
#include "app/run/read_frames.h"
#include "app/run/resume.h"
#include "app/run/run_forecast.h"
#include "app/run/run_network.h"
#include "app/run/scene_sink.h"
#include "app/run/scene_view.h"
#include "app/scene/scene_cloud.h"
#include "io/files/host_storage.h"
#include "io/files/scratch_file.h"
#include "io/files/staged_files.h"
#include "io/files/text.h"
#include "io/frames/image_writer.h"
#include "io/scene/cameras_json.h"
#include "io/scene/tum.h"
#include "model/memory_plan.h"
#include "model/vggt.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// The same events, with the warnings kept.
Events recording(const Events& events, std::vector<std::string>& warnings) {
  Events result = events;
  result.on_message = [&events, &warnings](Message kind, const std::string& text) {
    if (kind == Message::warning) warnings.push_back(text);
    if (events.on_message) events.on_message(kind, text);
  };
  return result;
}

std::string model_text(const ModelPlan& plan) {
  return plan.weights.path().filename().string() + " on " + device_name(plan.options.device) + " in " +
         precision_name(plan.options.precision) + ", heads: " + heads_text(plan.options.heads) +
         (plan.options.heads_in_bf16 ? ", the dense ones in bf16" : "");
}

std::string merge_text(const MergeOptions& merge) {
  std::ostringstream text;
  text << "from block " << merge.start << ", ratio " << merge.ratio << ", protect " << merge.protect
       << ", seed " << merge.seed;
  if (merge.refresh > 1) text << ", matched every " << merge.refresh << " blocks";
  if (merge.metric > 0) text << ", by " << merge.metric << " numbers a token";
  return text.str();
}

void warn_of_lost_frames(const FrameSet& frames, const std::vector<Camera>& cameras, const Events& events) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> lost;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (!cameras[i].valid) lost.push_back(frames.frames[i].file);
  }
  if (lost.empty()) return;
  events.warn(std::to_string(lost.size()) + " of " + std::to_string(cameras.size()) +
              " frames have no camera (no finite pose, or no field of view above 0) and give no points: " +
              first_of(lost, kNamed));
}

/// The plan's frames, their pixels in the space; or their sizes alone.
FrameSet frames_of(const RunPlan& plan, const std::shared_ptr<HostSpace>& space, bool with_pixels,
                   const Events& events) {
  FrameOptions options = plan.frames;
  options.space = space;
  FrameSet frames = with_pixels ? read_frames(options, events) : size_frames(options, events);
  check_frames(plan, frames);
  if (const std::string doubt = doubt_of_intrinsics(plan.adjust.given, frames); !doubt.empty())
    events.warn("intrinsics: " + doubt);
  return frames;
}

std::string thinning_text(const FilterCount& thinned, double side, const char* why) {
  std::ostringstream text;
  text.precision(3);
  text << "the cloud is thinned from " << thinned.before << " to " << thinned.after
       << " points, one in each cube of side " << side << "; " << why;
  return text.str();
}

/// A scene and its points, where one is made.
struct FilteredScene {
  BuiltScene built;
  SceneCloud cloud;
};

/// held: as for room_beside().
std::optional<FilteredScene> filtered_scene(const RunPlan& plan, SceneSink& sink, int64_t held,
                                            StageTimes& times, const Events& events) {
  times.restart();
  SceneBuilder* const builder = sink.builder();
  if (!builder) return std::nullopt;
  BuiltScene built = builder->finish();
  times.count("scene");
  events.check_stop();
  CloudFilters filters = filters_within(plan, plan.keep_points, built.points, held);
  const int64_t planned = filters.thin_to;
  SceneCloud cloud = cloud_within_memory(
      *builder, filters, plan.keep_points, built, [&events](int64_t points, int64_t at_most) {
        events.warn("out of memory with " + std::to_string(points) + " points; going on with " +
                    std::to_string(at_most) + " at most");
      });
  times.count("filters");
  for (const FilterCount& filter : built.filters) events.detail(filter_text(filter));
  if (const auto side = cloud.thinned_by()) {
    const auto thinned = std::ranges::find(built.filters, "thinned", &FilterCount::name);
    if (filters.thin_to != planned)
      events.warn(thinning_text(*thinned, *side, "the memory holds no more of them"));
    else if (filters.thin_to < plan.scene.filters.thin_to || plan.scene.filters.thin_to == 0)
      events.warn(thinning_text(*thinned, *side, "--host-memory holds no more of them"));
    else
      events.info(thinning_text(*thinned, *side, "--max-points 0 keeps all"));
  }
  const auto others = static_cast<int64_t>(sink.cameras().size()) - 1;
  const int asked = plan.scene.builder.consistent;
  if (cloud.size() == 0 && asked > 0 && asked > others) {
    events.warn("the cloud has no points: --consistent " + std::to_string(asked) +
                " asks for more frames than the " + std::to_string(others) + " others");
  } else if (cloud.size() == 0) {
    events.warn("the cloud has no points");
  }
  return FilteredScene{std::move(built), std::move(cloud)};
}

/// The scene's files but its report and the exports. cameras: none without the camera head. most_drawn:
/// points of the picture. Returns where the cloud lies, if one was written.
std::optional<fs::path> write_scene(const OutputPlan& plan, const std::vector<FrameCamera>& cameras,
                                    const SceneCloud* cloud, int64_t most_drawn, StagedFiles& files) {
  const OutputPaths& paths = plan.paths;
  std::optional<fs::path> cloud_file;
  if (!paths.cloud) return cloud_file;
  if (cloud) {
    files.write(*paths.cloud, [&](const auto& place) {
      cloud->write(place);
      cloud_file = place;
    });
  }
  if (paths.picture) {
    const int width = plan.picture_width, height = plan.picture_height;
    std::vector<Camera> drawn;
    for (const FrameCamera& camera : cameras) drawn.push_back(camera.camera);
    const Picture picture =
        draw_picture(cloud ? cloud->sample(most_drawn) : PointCloud(), drawn, width, height);
    files.write(*paths.picture, [&](const auto& place) { write_image(place, width, height, picture.rgb); });
  }
  if (cameras.empty()) return cloud_file;
  files.write(*paths.cameras, [&](const auto& place) { write_cameras_json(place, cameras); });
  files.write(*paths.trajectory, [&](const auto& place) { write_tum(place, cameras); });
  return cloud_file;
}

void report_plan(const RunPlan& plan, const FrameSet& frames, const RunForecast& forecast, Report& report) {
  const NetworkPlan& network = forecast.network;
  report.predicted_network_bytes = network.memory.peak_bytes();
  report.predicted_pinned_bytes = network.memory.pinned_bytes;
  report.predicted_peak_host_bytes = forecast.process.host;
  report.predicted_scratch_bytes = forecast.process.scratch;
  for (const StageSeconds& stage : network.seconds)
    report.predicted_seconds.emplace_back(stage.stage, stage.seconds);
  for (const auto& stage : forecast.beside.stages) report.predicted_seconds.push_back(stage);
  report.predicted_total_seconds = run_seconds(network, forecast.beside);
  const auto add_likely = [&](const std::string& stage, const LikelySeconds& seconds) {
    report.likely_seconds[stage] = {
        {"middle", seconds.middle}, {"least", seconds.least}, {"most", seconds.most}};
  };
  for (const auto& [stage, seconds] : forecast.beside.likely) add_likely(stage, seconds);
  if (const auto likely = likely_run_seconds(network, forecast.beside))
    add_likely("total", likely->plus(forecast.measuring));
  if (forecast.measuring > 0) {  // which is over by now
    report.predicted_seconds.emplace_back("measuring", forecast.measuring);
    if (report.predicted_total_seconds) *report.predicted_total_seconds += forecast.measuring;
  }
  report.options = plan.given;
  report.weights = plan.model.weights.path().string();
  report.device = device_name(plan.model.options.device);
  report.precision = precision_name(plan.model.options.precision);
  report.head_precision = plan.model.options.heads_in_bf16 ? "bf16" : "fp32";
  report.heads = heads_text(plan.model.options.heads);
  report.notes = plan.notes;
  report.network_width = frames.width;
  report.network_height = frames.height;
  for (const Frame& frame : frames.frames) report.frames_used.push_back(frame.file);
  report.frames_skipped = frames.warnings;
  report.versions = library_versions();
  report.versions.merge(torch_versions());
}

void report_run(const RunReport& run, Report& report) {
  report.memory_plan = plan_text(run.plan);
  report.predicted_host_bytes = run.plan.host_bytes;
  for (const auto& [name, o] : {std::pair("weights", run.weights), {"attention", run.attention}}) {
    if (o.bytes == 0) continue;
    report.streams[name] = {{"copy_ms", o.copy_ms},
                            {"wait_ms", o.wait_ms},
                            {"total_ms", o.total_ms},
                            {"bytes", static_cast<double>(o.bytes)},
                            {"overlap", o.efficiency()}};
  }
}

/// maps: null where there are none.
void copy_maps(const DenseMaps* maps, SceneArrays& arrays, std::size_t frames) {
  if (!maps) return;
  const std::size_t pixels = static_cast<std::size_t>(arrays.width) * static_cast<std::size_t>(arrays.height);
  arrays.depth.resize(frames * pixels);
  arrays.confidence.resize(frames * pixels);
  DenseMaps::Buffer buffer;
  for (std::size_t i = 0; i < frames; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i * pixels);
    std::ranges::copy(maps->values(static_cast<int>(i), buffer), arrays.depth.begin() + at);
    std::ranges::copy(maps->confidence(static_cast<int>(i), buffer), arrays.confidence.begin() + at);
  }
}

void report_scene(const ScenePlan& plan, const BuiltScene& scene, int64_t points, Report& report) {
  report.cloud_source = plan.source == CloudSource::depth ? "depth" : "point head";
  report.filters = scene.filters;
  report.conf_threshold = scene.conf_threshold;
  report.median_depth = scene.median_depth;
  report.points = points;
}

/// Tells once of a run that takes more than --host-memory after all. No prediction is sure: the pictures of a
/// video may grow midway.
class ExcessWarning {
 public:
  /// is_alone: no other runs share the process's memory.
  ExcessWarning(const RunPlan& plan, bool is_alone, const Events& events)
      : limit_(is_alone ? plan.limits.host : std::nullopt), events_(events) {}

  void check() {
    const int64_t peak = peak_host_bytes();
    if (told_ || !limit_ || peak <= std::max(before_, *limit_)) return;
    events_.warn("the process took " + std::to_string(peak / 1'000'000) + " MB, more than --host-memory");
    told_ = true;
  }

 private:
  const std::optional<int64_t> limit_;
  const Events& events_;
  const int64_t before_ = peak_host_bytes();
  bool told_ = false;
};

/// Writes the report with the seconds up to now, and publishes all files.
void finish(const RunPlan& plan, bool has_cloud, const PageContent* page, const StageTimes& times,
            ExcessWarning& excess, const Events& events, StagedFiles& files, Reconstruction& result) {
  const OutputPaths& paths = plan.outputs.paths;
  const DeviceMemory peak = peak_device_memory(plan.model.options.device);
  result.report.peak_device_bytes = peak.tensors;
  result.report.peak_device_reserved_bytes = peak.reserved;
  result.report.stage_seconds = times.stages();
  result.report.total_seconds = times.total();
  excess.check();
  if (page) files.write(*paths.page, [&](const auto& place) { write_page(place, result.report, *page); });
  excess.check();  // the page takes memory, too
  if (paths.report)
    files.write(*paths.report, [&](const auto& place) { write_report(place, result.report); });
  events.check_stop();
  files.commit();
  const auto wrote = [&](const std::optional<std::filesystem::path>& path, Output what) {
    if (path) result.written.push_back({*path, what});
  };
  if (has_cloud) wrote(paths.cloud, Output::cloud);
  if (!result.cameras.empty()) wrote(paths.cameras, Output::cameras);
  if (!result.cameras.empty()) wrote(paths.trajectory, Output::trajectory);
  wrote(paths.report, Output::report);
  wrote(paths.picture, Output::picture);
  wrote(paths.page, Output::page);
  wrote(paths.predictions, Output::predictions);
  const ExportPlan& exports = plan.outputs.exports;
  for (const auto* path : {&exports.colmap, &exports.nerfstudio, &exports.kitti, &exports.glb, &exports.depth,
                           &exports.confidence}) {
    wrote(*path, Output::exported);
  }
}

/// resume: in whose folder frames and depth maps lie, or null.
LoadedFrames load_frames_of(RunPlan plan, const Resume* resume, const Events& events) {
  const auto start = std::chrono::steady_clock::now();
  plan_image_memory(plan, /*with_network=*/true);
  if (plan.limits.stored.all == 0) lend_to_frames(plan);
  HostStorage storage = plan.limits.storage;
  if (resume) storage.scratch = resume->folder();
  auto space = std::make_shared<HostSpace>(storage);
  FrameSet frames = frames_of(plan, space, /*with_pixels=*/true, events);
  return {std::move(frames), std::move(space),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

void warn_of_changed_images(const std::vector<std::string>& changed, const Events& events) {
  if (changed.empty()) return;
  events.warn("export: " + std::to_string(changed.size()) +
              " images have changed or gone since they were read, so that their cameras may not fit them: " +
              changed.front() + (changed.size() > 1 ? " and others" : ""));
}

/// cloud: where it lies, if it was written. depth: null where there is none.
void write_exports(const SceneView& scene, const ExportedImages& images, const std::vector<Track>& tracks,
                   const std::optional<fs::path>& cloud, const DenseMaps* depth, StagedFiles& files) {
  const FrameSet& frames = scene.frames;
  const FrameWork work{scene.plan.frames.threads, [&scene] { scene.events.check_stop(); }};
  export_scene(scene.plan.outputs.exports, images,
               {scene.cameras, tracks, cloud, depth, frame_views(frames), frames.width, frames.read_mask,
                work, frames.read_rgb, decoding_bytes(scene.plan.limits)},
               files);
  warn_of_changed_images(images.changed(), scene.events);
  constexpr double kLeastTold = .001;
  if (const double share = most_black_share(images, scene.cameras); share > kLeastTold) {
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(),
                  "export: undistorted images are black in up to %.1f %% of their pixels, at rims that the "
                  "originals do not show",
                  100 * share);
    scene.events.info(text.data());
  }
}

/// Returns what the poses are of. held: as for room_beside().
std::string adjust_and_place(const RunPlan& plan, const FrameSet& frames, int64_t held, SceneSink& sink,
                             const Events& events) {
  std::string poses;
  if (plan.model.options.heads.camera) poses = "camera head";
  if (plan.adjust.wanted) poses += ", " + sink.adjust(room_beside(plan, held));
  warn_of_lost_frames(frames, sink.cameras(), events);
  if (const auto placement = place(plan.placement, frames, sink.cameras(), events)) {
    sink.move(placement->similarity);
    poses += (poses.empty() ? "" : ", ") + placement->summary;
  }
  return poses;
}

/// resume: the run's folder, or null.
Reconstruction run_plan(const RunPlan& given, StagedFiles& files, Resume* resume, const RunParts& parts,
                        const Events& given_events) {
  RunPlan plan = given;
  Reconstruction result;
  StageTimes times;
  const Events events = recording(given_events, result.report.warnings);
  ExcessWarning excess(plan, parts.is_alone(), events);
  for (const std::string& note : plan.notes) events.info(note);
  if (resume && resume->has_stages())
    events.info("going on from the finished stages in " + resume->folder().string());

  const int64_t ranks_here = parts.group ? agree(plan, *parts.group) : 1;
  if (parts.group && (parts.model || parts.network))
    throw std::logic_error("reconstruct: ranks load their models themselves");
  std::optional<LoadedModel> own;
  if (!parts.model && !parts.network) own.emplace(given.model);  // whose thread reads it
  const LoadedFrames loaded = parts.frames ? std::move(*parts.frames) : load_frames_of(plan, resume, events);
  const FrameSet& frames = loaded.frames;
  const std::shared_ptr<HostSpace>& space = loaded.space;
  hold_in_memory(plan, frames);
  space->set_bytes(plan.limits.storage.bytes);
  times.restart();
  const std::optional<ExportedImages> images = exported_images(plan, frames);
  if (images && plan.outputs.exports.colmap && images->names_hold_spaces())
    events.warn(
        "export: names with spaces are cut off by readers of COLMAP's text; its binary files hold them");
  times.add("frames", loaded.seconds);
  times.count("frames");
  events.info(frames_text(frames.frames.size(), frames.width, frames.height) + "; " + model_text(plan.model));
  check_tracker_takes(request_for(plan.memory, frames));
  if (own) {
    own->wait(events);
    if (parts.group) compare_weights(*parts.group, plan.model.weights);
    times.add("weights", own->seconds());
  }
  const LoadedModel* const model = own ? &*own : parts.model;
  const RunForecast forecast = forecast_run(plan, loaded, resume, parts, ranks_here, events);
  if (forecast.measuring > 0) times.add("measuring", forecast.measuring);
  report_plan(plan, frames, forecast, result.report);
  if (parts.group) {
    const MemoryRequest& request = forecast.request;
    share_task(*parts.group, {request.frames, request.height, request.width, request.merge.has_value(),
                              forecast.options.budget});
  }

  SceneSink sink(plan, frames, space, times, events);
  if (const auto& path = plan.outputs.paths.predictions)
    sink.save_predictions(*path, [&files, path] { return files.staged(*path); });
  const NetworkCall call = parts.network ? *parts.network : call_of(model->model());
  report_run(run_network(call, plan.model, forecast.options, frames, sink.sink(), times, events),
             result.report);
  give_back_memory();
  if (resume) resume->count_finished();
  if (model) {
    model->save_tuning();
    result.report.attention = model->attention_kernels();
  }
  for (const std::string& kernel : result.report.attention) events.detail("attention: " + kernel);
  if (parts.group) result.report.rank_peak_bytes = device_peaks(*parts.group, plan.model.options.device);
  result.report.poses = adjust_and_place(plan, frames, forecast.process.held, sink, events);
  result.tracks = sink.take_tracks();
  std::optional<FilteredScene> scene = filtered_scene(plan, sink, forecast.process.held, times, events);
  if (scene) report_scene(plan.scene, scene->built, scene->cloud.size(), result.report);

  result.cameras =
      frame_cameras(frames, sink.cameras(), scene ? scene->built.mean_confidence : std::vector<double>());
  const SceneView view{plan, frames, sink.builder(), scene ? &scene->cloud : nullptr, result.cameras, events};
  if (sink.builder() || plan.outputs.paths.report) {
    result.report.health = health_of(view, result.tracks, sink.weak_frames());
    times.count("health");
  }
  const int64_t drawn = scene ? drawn_points(plan, scene->cloud.size(), forecast.process.held) : 0;
  const auto cloud = write_scene(plan.outputs, result.cameras, scene ? &scene->cloud : nullptr, drawn, files);
  sink.finish_predictions();
  times.count("write");
  if (images) {
    write_exports(view, *images, result.tracks, cloud, sink.depth_maps(), files);
    times.count("export");
  }
  std::optional<PageContent> page;
  if (plan.outputs.paths.page) {
    page = page_content(view);
    times.count("page");
  }
  result.arrays.width = frames.width;
  result.arrays.height = frames.height;
  if (plan.keep_maps) copy_maps(sink.depth_maps(), result.arrays, frames.frames.size());
  if (plan.keep_points && scene) result.arrays.cloud = scene->cloud.take();
  finish(plan, scene.has_value(), page ? &*page : nullptr, times, excess, events, files, result);
  learn_from(plan, forecast, own ? &*own : nullptr, sink.is_adjusted(), times);
  return result;
}

}  // namespace

LoadedFrames load_run_frames(const RunPlan& plan, const Events& events) {
  return load_frames_of(plan, nullptr, events);
}

Reconstruction reconstruct(const RunPlan& plan, const Events& events, const RunParts& parts) {
  if (parts.group && parts.group->rank() > 0) {
    serve_rank(plan, *parts.group, events);
    return {};
  }
  begin_peak_scratch_bytes();
  StagedFiles files(plan.outputs.files(), plan.outputs.folders());
  std::optional<Resume> resume;
  if (plan.checkpoint_seconds) resume.emplace(plan, events);
  try {
    Reconstruction result = run_plan(plan, files, resume ? &*resume : nullptr, parts, events);
    if (resume) resume->finish();
    return result;
  } catch (const std::invalid_argument&) {
    throw;  // the same command ends so again
  } catch (...) {
    if (resume && resume->has_stages())
      events.warn("the same command goes on from the finished stages in " + resume->folder().string());
    throw;
  }
}

std::vector<std::string> describe(RunPlan plan, const Events& events) {
  const ModelOptions& model = plan.model.options;
  check_writable(plan.outputs.files(), plan.outputs.folders());
  if (plan.checkpoint_seconds) check_resume(plan, events);
  for (const std::string& note : plan.notes) events.info(note);
  plan_image_memory(plan, /*with_network=*/true);
  const FrameSet frames =
      frames_of(plan, std::make_shared<HostSpace>(plan.limits.storage), /*with_pixels=*/false, events);
  exported_images(plan, frames);
  hold_in_memory(plan, frames);
  std::vector<std::string> lines = {"frames:    " +
                                    frames_text(frames.frames.size(), frames.width, frames.height)};
  for (const Frame& frame : frames.frames) events.detail("  " + frame.file);
  lines.push_back("model:     " + plan.model.weights.path().string());
  lines.push_back("heads:     " + heads_text(model.heads));
  if (model.heads.camera) {
    lines.push_back(std::string("poses:     camera head") +
                    (plan.adjust.wanted ? ", then adjusted to the images" : ""));
  }
  lines.push_back("device:    " + device_name(model.device));
  lines.push_back("precision: " + precision_name(model.precision) +
                  (model.heads_in_bf16 ? ", dense heads bf16" : ""));
  lines.push_back(std::string("attention: ") + variant_name(model.attention));
  const PlanComparison plans =
      compare_ways(plan, request_for(plan.memory, frames), source_of(plan.frames, frames), events);
  if (const auto& merge = plans.plan.request.merge) lines.push_back("merging:   " + merge_text(*merge));
  check_fits(plan, plans.plan);
  const ProcessBytes process = predict_process(plan, plans.plan, origin_of(plan, frames));
  warn_of_memory(plan, plans.plan, process, plan.memory.ranks, events);
  const MemoryPlan& memory = plans.plan.memory;
  lines.push_back("memory:    " + memory_text(memory.weight_bytes, memory.peak_bytes() - memory.weight_bytes,
                                              memory.pinned_bytes));
  for (const auto& path : written_files(plan)) lines.push_back("output:    " + path.string());
  for (const std::string& row : plan_rows(plans, process)) lines.push_back(row);
  return lines;
}

}  // namespace vggt
