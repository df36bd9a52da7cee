#pragma once
#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "app/batch/batch_plan.h"
#include "app/batch/manifest.h"
#include "app/batch/owner.h"
#include "app/batch/work_list.h"
#include "app/run/loaded_model.h"
#include "app/run/reconstruct.h"

namespace vggt {

/// What the lanes of a batch share.
struct BatchRun {
  BatchRun(const BatchPlan& plan, const Events& events, Manifest& manifest, WorkList& work)
      : plan(plan), events(events), manifest(manifest), work(work), self(this_process()) {}

  const BatchPlan& plan;
  const Events& events;  // which several threads may call
  Manifest& manifest;
  WorkList& work;
  const Owner self;
  std::atomic<int64_t> ran = 0, running = 0;
  std::atomic<int64_t> before_scenes = 0;  // bytes in memory as the first scene began, but its own
  std::atomic<bool> stopped = false;

  /// Keeps the first failure of the machine, and lets no scene begin any more.
  void fail(std::exception_ptr error);
  bool has_failed() const;
  std::exception_ptr failure() const;

 private:
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
};

/// A scene whose frames are loaded, or the error that was met on the way.
struct PreparedScene {
  explicit PreparedScene(ClaimedScene scene) : claimed(std::move(scene)) {}

  ClaimedScene claimed;
  double seconds = 0;  // of planning and decoding
  std::optional<RunPlan> plan;
  std::optional<LoadedFrames> frames;
  int64_t left_in_memory = 0;  // bytes, see RunParts
  std::exception_ptr error;
};

/// The scenes that one device does: a thread claims them and loads their frames, one ahead, and others run
/// them.
class DeviceLane {
 public:
  /// common: the device's plan. Both must outlive the lane.
  DeviceLane(BatchRun& run, const RunPlan& common);
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;
  /// Waits until there is nothing left to do.
  ~DeviceLane();

 private:
  void enter_device(c10::OptionalDeviceGuard& guard) const;
  void prepare_scenes();
  void prepare(PreparedScene& scene);
  void load_frames(PreparedScene& scene);
  void run_scenes();
  std::unique_ptr<PreparedScene> take_prepared();
  void run_scene(PreparedScene& scene);
  void finish_badly(PreparedScene& scene, std::exception_ptr error, double seconds);
  void append(const PreparedScene& scene, SceneRecord record);
  Events scene_events(const PreparedScene& scene) const;

  BatchRun& run_;
  const RunPlan& common_;
  std::optional<LoadedModel> model_;
  std::atomic<int64_t> running_ = 0;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::unique_ptr<PreparedScene> prepared_;
  bool all_prepared_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace vggt
