#include "app/run/run_plan.h"

#include "app/run/device.h"
#include "app/run/model_loader.h"
#include "app/run/weights_path.h"
#include "io/files/staged_files.h"
#include "model/vggt.h"

namespace vggt {
namespace {

FrameOptions plan_frames(const Options& options, const Config& config) {
  FrameOptions frames;
  frames.source = options.frames;
  frames.fit = options.fit == "pad" ? Fit::pad : Fit::crop;
  frames.width = static_cast<int>(options.width.value_or(config.input_width));
  frames.patch_size = static_cast<int>(config.patch_size);
  frames.fps = options.fps;
  if (options.stride) frames.stride = static_cast<int>(*options.stride);
  if (options.max_frames) frames.max_frames = static_cast<int>(*options.max_frames);
  frames.strict = options.strict;
  frames.threads = static_cast<int>(options.threads);
  return frames;
}

ScenePlan plan_scene(const Options& options, CloudSource source) {
  ScenePlan scene;
  scene.source = source;
  scene.builder = {options.conf_percentile, options.conf_threshold, options.mask_black, options.mask_white,
                   options.depth_edge};
  scene.filters = {options.voxel, std::nullopt, options.max_points, options.seed};
  if (const auto outliers = parse_outliers(options.outliers, "outliers"))
    scene.filters.outliers = OutlierFilter{outliers->neighbors, outliers->std_ratio};
  return scene;
}

std::optional<MergeOptions> plan_merging(const Options& options) {
  if (options.merge == "off") return std::nullopt;
  return MergeOptions{.start = options.merge_start,
                      .ratio = options.merge_ratio,
                      .protect = options.merge_protect,
                      .refresh = options.merge_refresh,
                      .seed = static_cast<uint64_t>(options.merge_seed)};
}

/// Whether the weights wait on the host until they are needed: where they would fill the device.
bool weights_wait(const Config& config, const ModelOptions& model) {
  constexpr int64_t kShare = 2;
  if (!model.device.is_cuda()) return false;
  return weight_bytes(memory_request(config, model)) > model.budget.device / kShare;
}

OutputPlan plan_output_files(const Options& options) {
  OutputPlan outputs;
  outputs.paths = plan_outputs(options.out, options.picture, options.save_predictions);
  std::tie(outputs.picture_width, outputs.picture_height) =
      parse_picture_size(options.picture_size, "picture-size");
  return outputs;
}

/// Of options that are checked.
RunPlan settle(const Options& options) {
  OutputPlan outputs = plan_output_files(options);
  ModelOptions model;
  model.device = choose_device(options.device);
  model.attention = choose_attention(options.attention, model.device);
  model.precision = choose_precision(options.precision, options.attention, model.device);
  model.merge = plan_merging(options);
  WeightFile weights =
      WeightFile::open(options.weights.empty() ? default_weights().string() : options.weights);
  Config config = config_of(weights);
  HeadChoice heads = choose_heads(options, heads_in(shapes_of(weights)), outputs.paths.names_cloud);
  model.heads = heads.run;
  const AdjustPlan adjust{choose_adjustment(options, heads, config.bundle_adjust),
                          options.bundle_adjust == "on"};
  check_model_options(config, model);
  const MemoryLimits limits = choose_limits(options, model.device);
  model.budget = limits.network;
  model.weights_on_host = weights_wait(config, model);
  QueryPoints queries;
  if (!options.query_points.empty()) queries = read_query_points(options.query_points);
  MemoryRequest memory = memory_request(config, model);
  memory.query_points = static_cast<int64_t>(queries.size());
  check_apart(outputs.paths.all(), {options.frames, weights.path(), options.query_points});
  return {plan_frames(options, config),
          {std::move(weights), config, model, !options.no_autotune, std::move(queries), options.query_points},
          adjust,
          plan_scene(options, heads.cloud),
          std::move(outputs),
          std::move(memory),
          std::move(heads.notes),
          options,
          limits,
          options.resume ? std::optional(CheckpointOptions().seconds) : std::nullopt};
}

}  // namespace

RunPlan plan_run(const Options& options) {
  check_options(options);
  return settle(options);
}

RunPlan plan_measurement(Options options) {
  options.out.clear();
  options.picture.clear();
  options.save_predictions.clear();
  options.bundle_adjust = "off";
  check_options_but_outputs(options);
  return settle(options);
}

}  // namespace vggt
