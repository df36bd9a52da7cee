#include "app/run/run_plan.h"

#include <algorithm>
#include <iterator>

#include "app/adjust/adjust_scene.h"
#include "app/run/device.h"
#include "app/run/loaded_model.h"
#include "app/run/model_loader.h"
#include "app/run/read_frames.h"
#include "app/run/weights_path.h"
#include "io/files/staged_files.h"
#include "io/scene/pose_files.h"
#include "model/vggt.h"

namespace vggt {
namespace {

/// The file that a path to cameras names: itself, or of a folder the one that is read.
std::filesystem::path camera_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  return pose_file_in(path).value_or(path);
}

FrameOptions plan_frames(const Options& options, const Config& config, const InMemory& memory) {
  FrameOptions frames;
  frames.paths = memory.paths;
  frames.images = memory.images;
  frames.source = options.frames;
  const std::string& fit = options.fit == "auto" ? config.fit : options.fit;
  frames.fit = fit == "pad" ? Fit::pad : fit == "whole" ? Fit::whole : Fit::crop;
  frames.width = static_cast<int>(options.width.value_or(config.input_width));
  frames.patch_size = static_cast<int>(config.patch_size);
  frames.fps = options.fps;
  if (options.stride) frames.stride = static_cast<int>(*options.stride);
  if (options.max_frames) frames.max_frames = static_cast<int>(*options.max_frames);
  frames.masks = options.masks;
  frames.strict = options.strict;
  frames.threads = static_cast<int>(options.threads);
  return frames;
}

/// A cloud of more points is thinned unless the options say how large it may be: many viewers open no more.
constexpr int64_t kSensiblePoints = 10'000'000;

ScenePlan plan_scene(const Options& options, CloudSource source) {
  ScenePlan scene;
  scene.source = source;
  scene.builder = {options.conf_percentile, options.conf_threshold, options.mask_black,
                   options.mask_white,      options.depth_edge,     static_cast<int>(options.consistent)};
  const bool sized = options.voxel || options.max_points;
  scene.filters = {options.voxel.value_or(0), std::nullopt, options.max_points.value_or(0), options.seed,
                   sized ? 0 : kSensiblePoints};
  scene.builder.normals = std::ranges::count(options.exports, "normals") > 0;
  if (const auto outliers = parse_outliers(options.outliers, "outliers"))
    scene.filters.outliers = OutlierFilter{outliers->neighbors, outliers->std_ratio};
  return scene;
}

/// Whether the weights wait on the host until they are needed: where they would fill the device.
bool weights_wait(const MemoryRequest& request) {
  constexpr int64_t kShare = 2;
  return request.gpu && weight_bytes(request) > request.budget.device / kShare;
}

OutputPlan plan_output_files(const Options& options) {
  OutputPlan outputs;
  outputs.paths = plan_outputs(options.out, options.picture, options.save_predictions, options.report);
  if (outputs.paths.base)
    outputs.exports = plan_exports(options, *outputs.paths.base, !outputs.paths.names_cloud);
  std::tie(outputs.picture_width, outputs.picture_height) =
      parse_picture_size(options.picture_size, "picture-size");
  return outputs;
}

void check_exports(const ExportPlan& exports, const HeadChoice& heads) {
  const std::string running = " (running: " + heads_text(heads.run) + ")";
  if ((exports.needs_cameras() || exports.needs_depth()) && !heads.run.camera)
    throw std::invalid_argument("export: needs the head camera" + running);
  if (exports.needs_depth() && !heads.run.depth)
    throw std::invalid_argument("export: depth and confidence need the head depth" + running);
  const bool has_cloud = heads.cloud != CloudSource::none;
  if ((exports.normals && !has_cloud) || (exports.glb && !has_cloud && !heads.run.camera))
    throw std::invalid_argument("export: normals and glb need a cloud, for which there are no heads" +
                                running);
}

/// Throws where options of the scene need cameras and there are none.
void check_cameras(const Options& options, const HeadChoice& heads) {
  if (!options.poses.empty() && (heads.cloud == CloudSource::point_head || heads.run.points))
    throw std::invalid_argument(
        "poses: the point head's points do not lie in their world; give --heads camera,depth");
  if (heads.run.camera) return;
  for (const auto& [name, used] : {std::pair("align", !options.align.empty()),
                                   {"up", options.up == "auto"},
                                   {"consistent", options.consistent > 0},
                                   {"intrinsics", !options.intrinsics.empty()},
                                   {"poses", !options.poses.empty()}}) {
    if (used)
      throw std::invalid_argument(std::string(name) +
                                  ": needs the head camera (running: " + heads_text(heads.run) + ")");
  }
}

/// Throws as check_options(), where frames or results may be in memory.
void check_with(Options options, const InMemory& memory) {
  if (memory.has_frames()) {
    if (!options.frames.empty() || (!memory.paths.empty() && !memory.images.empty()))
      throw std::invalid_argument("frames: give a source, paths or images, not several of them");
    if (options.resume)
      throw std::invalid_argument("resume: needs frames that one folder, list or file holds");
    options.frames = "-";  // which is not read
  }
  if (!memory.scene || !options.out.empty()) return check_options(options);
  check_options_but_outputs(options);
  if (!options.exports.empty() && options.exports != std::vector<std::string>{"normals"})
    throw std::invalid_argument("export: it goes beside the result, which needs out");
}

/// Of options that are checked.
RunPlan settle(const Options& options, const LoadedModel* loaded, const InMemory& in_memory) {
  OutputPlan outputs = plan_output_files(options);
  ModelOptions model;
  model.device = choose_device(options.device);
  model.attention = choose_attention(options.attention, model.device);
  model.precision = choose_precision(options.precision, options.attention, model.device);
  model.heads_in_bf16 = choose_heads_in_bf16(options.head_precision, model.precision, model.device);
  if (options.merge != "off") model.merge = merge_options(options);
  WeightFile weights =
      WeightFile::open(options.weights.empty() ? default_weights().string() : options.weights);
  Config config = config_of(weights);
  HeadChoice heads =
      choose_heads(options, heads_in(shapes_of(weights)), outputs.paths.names_cloud, in_memory.points);
  model.heads = heads.run;
  check_exports(outputs.exports, heads);
  check_cameras(options, heads);
  GivenCameras given = plan_given(options);
  const bool adjusts = choose_adjustment(options, heads);
  const AdjustPlan adjust{adjusts, plan_adjustment(options, given, adjusts),
                          choose_refinement(options, adjusts, !refiner_shapes_of(weights).empty()),
                          options.refine_depth == "on", std::move(given)};
  check_model_options(config, model);
  MemoryLimits limits = choose_limits(options, model.device, loaded ? loaded->device_bytes() : 0);
  model.budget = limits.network;
  model.begin_heads = model.device.is_cuda() && !limits.gpu_allocator;  // which takes some memory
  QueryPoints queries;
  if (!options.query_points.empty()) queries = read_query_points(options.query_points);
  MemoryRequest memory = memory_request(config, model);
  memory.weights_on_host = model.weights_on_host = weights_wait(memory);
  memory.query_points = static_cast<int64_t>(queries.size());
  memory.checkpoints = options.resume;
  FrameOptions frames = plan_frames(options, config, in_memory);
  keep_inputs(options, weights.path(), frames, outputs.files(), outputs.folders());
  if (!model.device.is_cuda() || model.weights_on_host) keep_weights(limits, weight_bytes(memory));
  frames.memory_budget_bytes = decoding_bytes(limits);
  if (adjust.wanted) frames.gray_side = kMatchingSide;
  return {std::move(frames),
          {std::move(weights), config, model, !options.no_autotune, std::move(queries), options.query_points},
          adjust,
          plan_scene(options, heads.cloud),
          std::move(outputs),
          std::move(memory),
          std::move(heads.notes),
          options,
          limits,
          options.resume ? std::optional(CheckpointOptions().seconds) : std::nullopt,
          plan_placement(options.align, options.scale, options.up == "auto"),
          in_memory.maps,
          in_memory.points};
}

}  // namespace

void RunPlan::keep_limits(const MemoryLimits& kept) {
  limits = kept;
  memory.budget = model.options.budget = kept.network;
  frames.memory_budget_bytes = decoding_bytes(kept);
}

std::vector<std::filesystem::path> OutputPlan::files() const {
  std::vector<std::filesystem::path> files = paths.all();
  for (const auto& file : exports.files()) files.push_back(file);
  return files;
}

std::vector<std::filesystem::path> written_files(const RunPlan& plan) {
  const OutputPaths& paths = plan.outputs.paths;
  std::vector<std::filesystem::path> written = plan.outputs.files();
  for (const auto& folder : plan.outputs.folders()) written.push_back(folder);
  std::erase_if(written, [&](const std::filesystem::path& path) {
    if (path == paths.cloud) return plan.scene.source == CloudSource::none;
    return (path == paths.cameras || path == paths.trajectory) && !plan.model.options.heads.camera;
  });
  return written;
}

std::vector<std::filesystem::path> earlier_files(const RunPlan& plan) {
  const OutputPaths& paths = plan.outputs.paths;
  if (!paths.base) return {};
  Options all = plan.given;
  all.exports = {"colmap", "nerfstudio", "depth", "confidence", "kitti", "glb"};
  const ExportPlan exports = plan_exports(all, *paths.base, !paths.names_cloud);
  const std::vector<std::filesystem::path> mine = written_files(plan);
  std::vector<std::filesystem::path> found = exports.files();
  for (const auto& folder : exports.folders()) found.push_back(folder);
  found.push_back(paths.base->string() + ".html");
  for (const auto* path : {&paths.cloud, &paths.cameras, &paths.trajectory}) {
    if (*path) found.push_back(**path);
  }
  std::erase_if(found, [&](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::ranges::count(mine, path) > 0 || !std::filesystem::exists(path, ignored);
  });
  return found;
}

MergeOptions merge_options(const Options& options) {
  return {.start = options.merge_start,
          .ratio = options.merge_ratio,
          .protect = options.merge_protect,
          .refresh = options.merge_refresh,
          .metric = options.merge_metric,
          .seed = static_cast<uint64_t>(options.merge_seed)};
}

RunPlan plan_run(const Options& options, const LoadedModel* loaded, const InMemory& memory) {
  check_with(options, memory);
  RunPlan plan = settle(options, loaded, memory);
  std::ranges::copy(idle_options(options), std::back_inserter(plan.notes));
  return plan;
}

void keep_inputs(const Options& options, const std::filesystem::path& weights, const FrameOptions& frames,
                 const std::vector<std::filesystem::path>& outputs,
                 const std::vector<std::filesystem::path>& folders) {
  check_apart(outputs,
              {options.frames, weights, options.query_points, options.masks, camera_file(options.align),
               camera_file(options.intrinsics), camera_file(options.poses)},
              folders);
  keep_frames(frames, options.masks, outputs);
}

RunPlan plan_measurement(Options options, bool with_scene) {
  options.out.clear();
  options.exports.clear();
  options.export_images = "auto";
  options.picture.clear();
  options.report = false;
  options.save_predictions.clear();
  options.masks.clear();
  options.align.clear();
  if (!with_scene) options.bundle_adjust = "off";
  options.camera = "auto";
  options.refine.clear();
  check_options_but_outputs(options);
  InMemory wanted;
  wanted.points = with_scene;
  RunPlan plan = settle(options, nullptr, wanted);
  plan.keep_points = false;  // they would go into a file
  return plan;
}

}  // namespace vggt
