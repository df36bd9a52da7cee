#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/adjust/bundle_setup.h"
#include "app/export/export_plan.h"
#include "app/options/options.h"
#include "app/run/given_cameras.h"
#include "app/run/head_choice.h"
#include "app/run/memory_limits.h"
#include "app/run/outputs.h"
#include "app/run/placement.h"
#include "app/run/query_points.h"
#include "app/scene/scene_builder.h"
#include "app/scene/scene_filters.h"
#include "io/frames/frames.h"
#include "io/weights/weight_file.h"
#include "model/memory_plan.h"
#include "model/model_options.h"

namespace vggt {

class LoadedModel;  // app/run/loaded_model.h

/// Which network runs, and how.
struct ModelPlan {
  WeightFile weights;
  Config config;
  ModelOptions options;  // device, precision, heads, attention, merging; the tuner is the run's own
  bool autotune = true;  // attention's plans by measurement
  QueryPoints queries;   // for the tracker; none where it does not run
  std::filesystem::path queries_file;
};

/// Whether cameras and depth are fitted to the images.
struct AdjustPlan {
  bool wanted = false;
  AdjustOptions options;
  bool refines = false;      // then the depth, by the refiner among the weights
  bool must_refine = false;  // that was asked for
  GivenCameras given;        // what is known of the cameras, whether they are adjusted or not
};

/// What the cloud is made of and what is left of it.
struct ScenePlan {
  CloudSource source = CloudSource::none;
  SceneOptions builder;
  CloudFilters filters;
};

struct OutputPlan {
  OutputPaths paths;
  ExportPlan exports;
  int picture_width = 0, picture_height = 0;

  /// All files but those in folders(), which are written as a whole.
  std::vector<std::filesystem::path> files() const;
  std::vector<std::filesystem::path> folders() const { return exports.folders(); }
};

/// What the caller of a library hands over and takes in memory, instead of files or beside them.
struct InMemory {
  std::vector<std::string> paths;     // image files, instead of Options::frames
  std::vector<ImageInMemory> images;  // or images, which stay until the run ends
  bool maps = false, points = false;  // wanted as Reconstruction::arrays
  bool scene = false;                 // no file has to be written

  bool has_frames() const { return !paths.empty() || !images.empty(); }
};

/// All that a run does, settled before any work: each stage takes its own part, and no stage parses a text.
struct RunPlan {
  FrameOptions frames;
  ModelPlan model;
  AdjustPlan adjust;
  ScenePlan scene;
  OutputPlan outputs;
  MemoryRequest memory;            // of the network; the frames' number and size follow when they are read
  std::vector<std::string> notes;  // what a person should be told beforehand, one line each
  Options given;                   // the options as typed, for the report alone
  MemoryLimits limits;             // of the network, of frames and of what the dense heads say of them
  /// With --resume: seconds from one checkpoint inside the trunk to the next, at least.
  std::optional<double> checkpoint_seconds = {};
  PlacementPlan placement = {};                 // of the scene
  bool keep_maps = false, keep_points = false;  // for Reconstruction::arrays

  /// Has every stage keep these.
  void keep_limits(const MemoryLimits& kept);
};

/// Files and folders that the run writes.
std::vector<std::filesystem::path> written_files(const RunPlan& plan);

/// Clouds, cameras, exports and pages that stand beside the result and are not written by this run: an
/// earlier one left them there.
std::vector<std::filesystem::path> earlier_files(const RunPlan& plan);

/// How tokens merge where they do.
MergeOptions merge_options(const Options& options);

/// Opens the weight file and the query points, and settles everything that the options leave open. Throws
/// std::invalid_argument and std::system_error for options, weights and query points that cannot be used, and
/// for outputs that would replace an input. loaded: the model that will run it, whose weights then count as
/// free memory of its device.
RunPlan plan_run(const Options& options, const LoadedModel* loaded = nullptr, const InMemory& memory = {});

/// The plan of a run whose network is only measured: no output has to be named. with_scene: as if a cloud
/// came of it, adjusted where the options say so; else there is none.
RunPlan plan_measurement(Options options, bool with_scene = false);

/// Throws std::invalid_argument where an output would replace a file that a run with these options reads, or
/// where a folder that is replaced holds one. weights, frames: of the plan.
void keep_inputs(const Options& options, const std::filesystem::path& weights, const FrameOptions& frames,
                 const std::vector<std::filesystem::path>& outputs,
                 const std::vector<std::filesystem::path>& folders = {});

}  // namespace vggt
