#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/batch/scene_list.h"
#include "app/batch/shard.h"
#include "app/events/events.h"
#include "app/options/options.h"
#include "app/run/run_plan.h"

namespace vggt {

/// What a batch is told.
struct BatchRequest {
  Options options;     // of every scene; `out` is the results' folder, `device` may be "all" or a list
  std::string scenes;  // a folder, or a list
  int64_t jobs = 1;    // scenes at once on a device
  bool retry_failed = false;
  std::optional<Shard> shard;
};

/// A batch, settled before any work.
struct BatchPlan {
  Options options;
  std::filesystem::path results;
  std::vector<BatchScene> scenes;
  std::vector<std::size_t> share;  // numbers of the scenes that this process does
  std::vector<RunPlan> devices;    // for each of them what all its scenes have in common
  int jobs = 1;
  bool retry_failed = false;
  std::vector<std::string> notes;  // what a person should be told beforehand, one line each

  /// Scenes at once, on all devices.
  int64_t at_once() const {
    return std::min<int64_t>(jobs * static_cast<int64_t>(devices.size()), static_cast<int64_t>(share.size()));
  }
  std::filesystem::path manifest() const { return results / "manifest.jsonl"; }
  std::filesystem::path claims() const { return results / ".claims"; }
};

/// Finds the scenes, opens the weights and settles what they have in common. Writes nothing. Throws as
/// find_scenes() and plan_run().
BatchPlan plan_batch(const BatchRequest& request);

/// A scene's plan, which takes its part of a device's memory from `common`, the device's own plan: the memory
/// that is free while others run says nothing. Throws as plan_run().
RunPlan plan_scene(const Options& options, const RunPlan& common, const LoadedModel& model);

/// What the batch would do, line by line. Throws as find_scenes().
std::vector<std::string> describe(const BatchPlan& plan);

}  // namespace vggt
