#include "app/batch/device_lane.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "app/batch/batch_table.h"
#include "app/batch/job_memory.h"
#include "app/batch/scene_options.h"
#include "app/batch/scene_outputs.h"
#include "app/run/device.h"
#include "app/run/failure.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Begins the peak of a scene that runs alone. Returns what earlier ones have left in memory, in bytes.
int64_t begin_peak(BatchRun& run, const PreparedScene& scene) {
  const int64_t of_scene = scene.frames ? scene.frames->space->taken() : 0,
                others = reset_peak_host_bytes() - of_scene;
  int64_t none = 0;
  run.before_scenes.compare_exchange_strong(none, others);
  return std::max<int64_t>(0, others - run.before_scenes);
}

/// Whether an error of one scene is that of all: of the machine, or of a folder of results that cannot be
/// written any more.
bool concerns_all(const Failure& failure, const fs::path& results) {
  const bool is_closed = failure.code == ExitCode::bad_input && ::access(results.c_str(), W_OK | X_OK) != 0;
  return failure.machine || is_closed;
}

}  // namespace

void BatchRun::fail(std::exception_ptr error) {
  {
    const std::lock_guard guard(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  work.end();
}

bool BatchRun::has_failed() const {
  return failure() != nullptr;
}

std::exception_ptr BatchRun::failure() const {
  const std::lock_guard guard(mutex_);
  return failure_;
}

DeviceLane::DeviceLane(BatchRun& run, const RunPlan& common) : run_(run), common_(common) {
  try {
    for (int i = 0; i < run.plan.jobs; ++i) threads_.emplace_back([this] { run_scenes(); });
    threads_.emplace_back([this] { prepare_scenes(); });
  } catch (...) {  // there is no thread
    run_.fail(std::current_exception());
    const std::lock_guard lock(mutex_);
    all_prepared_ = true;
    changed_.notify_all();
  }
}

DeviceLane::~DeviceLane() {
  for (std::thread& thread : threads_) thread.join();
}

/// LibTorch's current device is each thread's own.
void DeviceLane::enter_device(c10::OptionalDeviceGuard& guard) const {
  const at::Device device = common_.model.options.device;
  if (device.is_cuda()) guard.reset_device(device);
}

void DeviceLane::prepare_scenes() {
  c10::OptionalDeviceGuard guard;
  try {
    enter_device(guard);
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !prepared_; });
      }
      std::optional<ClaimedScene> scene = run_.work.next(run_.events);
      if (!scene) break;
      auto prepared = std::make_unique<PreparedScene>(std::move(*scene));
      prepare(*prepared);
      const std::lock_guard lock(mutex_);
      prepared_ = std::move(prepared);
      changed_.notify_all();
    }
  } catch (const Stopped&) {
    run_.stopped = true;
  } catch (...) {
    run_.fail(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  all_prepared_ = true;
  changed_.notify_all();
}

/// Whatever goes wrong with the scene is kept for the thread that would run it. What goes wrong with the
/// model is thrown.
void DeviceLane::prepare(PreparedScene& scene) {
  const Clock::time_point start = Clock::now();
  SceneRecord begun;
  begun.files = scene.claimed.before;
  append(scene, begun);
  const bool is_first = !model_;
  if (is_first) model_.emplace(common_.model);
  try {
    load_frames(scene);
  } catch (...) {
    scene.error = std::current_exception();
  }
  scene.seconds = seconds_since(start);
  if (!is_first) return;
  try {
    model_->wait(run_.events);
  } catch (...) {
    finish_badly(scene, std::make_exception_ptr(Stopped()), scene.seconds);
    throw;
  }
}

void DeviceLane::load_frames(PreparedScene& scene) {
  Options options = scene_options(run_.plan.options, scene.claimed.scene);
  options.device = common_.model.options.device.str();
  scene.plan.emplace(plan_scene(options, common_, *model_));
  if (options.resume) return;  // such a run has its frames in a folder of its own
  Events events = scene_events(scene);
  events.on_progress = nullptr;  // another scene's is shown
  scene.frames = load_run_frames(*scene.plan, events);
}

std::unique_ptr<PreparedScene> DeviceLane::take_prepared() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return prepared_ || all_prepared_; });
  // Nothing is decoded while a scene waits. The peaks are those of one scene where nothing else runs.
  if (prepared_ && run_.running == 0) prepared_->left_in_memory = begin_peak(run_, *prepared_);
  std::unique_ptr<PreparedScene> scene = std::move(prepared_);
  changed_.notify_all();
  return scene;
}

void DeviceLane::run_scenes() {
  c10::OptionalDeviceGuard guard;
  while (const std::unique_ptr<PreparedScene> scene = take_prepared()) {
    const Clock::time_point start = Clock::now();
    ++run_.running;
    const bool alone_here = running_++ == 0;
    try {
      if (alone_here) reset_peak_device_memory(common_.model.options.device);
      if (run_.has_failed()) throw Stopped();
      enter_device(guard);
      if (scene->error) std::rethrow_exception(scene->error);
      run_scene(*scene);
    } catch (...) {
      finish_badly(*scene, std::current_exception(), scene->seconds + seconds_since(start));
    }
    --running_;
    --run_.running;
  }
}

void DeviceLane::run_scene(PreparedScene& scene) {
  const ClaimedScene& claimed = scene.claimed;
  const Events events = scene_events(scene);
  RunParts parts{&*model_, scene.frames ? &*scene.frames : nullptr};
  parts.left_in_memory = scene.left_in_memory;
  parts.at_once = run_.plan.at_once();
  const Reconstruction result = reconstruct(*scene.plan, events, parts);
  const fs::path folder = scene_folder(run_.plan.options, claimed.scene.name);
  SceneRecord record;
  record.scene = claimed.scene.name;
  record.state = SceneState::done;
  record.seconds = result.report.total_seconds;
  record.frames = static_cast<int64_t>(result.report.frames_used.size());
  record.points = result.report.points;
  record.warnings = result.report.warnings;
  record.files = outputs_in(folder, result.written);
  remove_outdated(folder, claimed.before, record.files);
  append(scene, record);
  ++run_.ran;
  run_.events.info(scene_line(claimed.number, run_.plan.scenes.size(), claimed.reason, record));
}

void DeviceLane::finish_badly(PreparedScene& scene, std::exception_ptr error, double seconds) try {
  const Failure failure = explain(error);
  const ClaimedScene& claimed = scene.claimed;
  SceneRecord record;
  record.seconds = seconds;
  record.exit_code = static_cast<int>(failure.code);
  record.error = failure.message;
  record.files = claimed.before;
  const bool ends_batch = concerns_all(failure, run_.plan.results);
  if (ends_batch) run_.fail(error);
  if (claimed.claim.is_lost()) {
    run_.events.warn(claimed.scene.name + ": another process has taken it over, as this one stood still");
    return;
  }
  if (failure.code == ExitCode::stopped || ends_batch) {
    record.state = SceneState::stopped;
    if (!run_.has_failed()) run_.stopped = true;
  } else {
    record.state = SceneState::failed;
    const fs::path folder = scene_folder(run_.plan.options, claimed.scene.name);
    if (missing_of(claimed.before, folder) < claimed.before.size())
      record.error += "; its folder still holds an earlier result";
    ++run_.ran;
    run_.events.warn(claimed.scene.name + ": " + record.error);
  }
  append(scene, record);
} catch (...) {
  run_.fail(std::current_exception());
}

/// Writes the record's state, and what it has in common with the scene's others.
void DeviceLane::append(const PreparedScene& scene, SceneRecord record) {
  const ClaimedScene& claimed = scene.claimed;
  const at::Device device = common_.model.options.device;
  record.scene = claimed.scene.name;
  record.source = claimed.scene.source.string();
  record.fingerprint = claimed.fingerprint;
  record.program = library_versions().at("vggt-recon");
  record.host = run_.self.host;
  record.pid = run_.self.pid;
  record.device = device.str();
  record.peak_host_bytes = peak_host_bytes();
  const DeviceMemory peak = peak_device_memory(device);
  record.peak_device_bytes = peak.tensors;
  record.peak_device_reserved_bytes = peak.reserved;
  run_.manifest.append(record);
}

Events DeviceLane::scene_events(const PreparedScene& scene) const {
  const std::string prefix = scene.claimed.scene.name + ": ";
  const Events& events = run_.events;
  const Claim& claim = scene.claimed.claim;
  Events result;
  result.on_message = [&events, prefix](Message kind, const std::string& text) {
    kind == Message::warning ? events.warn(prefix + text) : events.detail(prefix + text);
  };
  // Of several scenes at once the lines would only chase each other.
  if (run_.plan.jobs * run_.plan.devices.size() == 1) {
    result.on_progress = [&events, prefix](const std::string& stage, const std::string& unit, int64_t done,
                                           int64_t total) {
      events.progress(prefix + stage, unit, done, total);
    };
  }
  result.stop = [&events, &claim] { return (events.stop && events.stop()) || claim.is_lost(); };
  return result;
}

}  // namespace vggt
