#include "app/batch/batch_run.h"

#include <deque>
#include <mutex>
#include <system_error>

#include "app/batch/claims.h"
#include "app/batch/device_lane.h"
#include "app/batch/file_lock.h"
#include "app/batch/scene_options.h"
#include "app/batch/work_list.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// The same events for several threads; one at a time is heard.
Events in_turn(const Events& events, std::mutex& mutex) {
  Events result;
  result.on_message = [&](Message kind, const std::string& text) {
    const std::lock_guard guard(mutex);
    if (events.on_message) events.on_message(kind, text);
  };
  result.on_progress = [&](const std::string& stage, const std::string& unit, int64_t done, int64_t total) {
    const std::lock_guard guard(mutex);
    if (events.on_progress) events.on_progress(stage, unit, done, total);
  };
  result.stop = events.stop;
  return result;
}

}  // namespace

BatchResult run_batch(const BatchPlan& plan, const Events& given_events) {
  std::mutex told;
  const Events events = in_turn(given_events, told);
  for (const std::string& note : plan.notes) events.info(note);
  for (const std::string& note : plan.devices.front().notes) events.info(note);
  fs::create_directories(plan.results);
  FileLock lock(plan.manifest());
  Manifest manifest(plan.manifest(), lock);
  Claims claims(plan.claims(), lock);
  const fs::path weights = plan.devices.front().model.weights.path();
  WorkList work(
      plan.scenes, plan.share, plan.results, plan.retry_failed,
      [&](const BatchScene& scene) { return fingerprint_of(scene_options(plan.options, scene), weights); },
      manifest, claims);
  BatchRun run(plan, events, manifest, work);
  {
    std::deque<DeviceLane> lanes;
    for (const RunPlan& device : plan.devices) lanes.emplace_back(run, device);
  }
  BatchResult result{manifest.all(), run.ran, run.stopped, {}, run.failure()};
  if (!result.stopped && !result.failure) result.done_otherwise = work.done_otherwise();
  return result;
}

}  // namespace vggt
