#include "app/batch/batch_plan.h"

#include <algorithm>

#include "app/batch/fingerprint.h"
#include "app/batch/job_memory.h"
#include "app/batch/manifest.h"
#include "app/batch/scene_options.h"
#include "app/batch/work_list.h"
#include "app/run/device.h"
#include "io/files/text.h"
#include "model/memory_plan.h"

namespace vggt {
namespace {

/// The names of devices that --device means.
std::vector<std::string> devices_of(const std::string& text) {
  const std::vector<int> gpus = listed_gpus(text == "auto" && gpu_count() > 0 ? "all" : text);
  if (gpus.empty()) return {choose_device(text).str()};
  std::vector<std::string> devices;
  for (const int gpu : gpus) devices.push_back("cuda:" + std::to_string(gpu));
  return devices;
}

void take_memory(RunPlan& plan, const RunPlan& common) {
  plan.keep_limits(common.limits);
  plan.model.options.weights_on_host = common.model.options.weights_on_host;
  plan.memory.weights_on_host = common.memory.weights_on_host;
}

std::string passed_over_text(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  const std::string what = names.size() == 1 ? "a sub-folder holds no images: "
                                             : std::to_string(names.size()) + " sub-folders hold no images: ";
  return what + first_of(names, kNamed);
}

}  // namespace

BatchPlan plan_batch(const BatchRequest& request) {
  check_batch_options(request.options);
  BatchPlan plan;
  plan.options = request.options;
  plan.results = request.options.out;
  plan.jobs = static_cast<int>(request.jobs);
  plan.retry_failed = request.retry_failed;
  SceneList list = find_scenes(request.scenes, plan.results);
  plan.scenes = std::move(list.scenes);
  if (!list.passed_over.empty()) plan.notes.push_back(passed_over_text(list.passed_over));
  const Shard shard = request.shard.value_or(Shard());
  for (std::size_t i = 0; i < plan.scenes.size(); ++i) {
    if (shard.has(i)) plan.share.push_back(i);
  }
  const std::vector<std::string> devices = devices_of(request.options.device);
  for (const std::string& device : devices) {
    Options common = common_options(request.options);
    common.device = device;
    plan.devices.push_back(plan_run(common));
    const RunPlan& settled = plan.devices.back();
    const bool resident = settled.model.options.device.is_cuda() && !settled.model.options.weights_on_host;
    divide_memory(plan.devices.back().limits, resident ? weight_bytes(settled.memory) : 0, plan.jobs,
                  static_cast<int64_t>(devices.size()));
  }
  return plan;
}

RunPlan plan_scene(const Options& options, const RunPlan& common, const LoadedModel& model) {
  RunPlan plan = plan_run(options, &model);
  take_memory(plan, common);
  return plan;
}

std::vector<std::string> describe(const BatchPlan& plan) {
  ManifestReader manifest(plan.manifest());
  const SceneRecords& records = manifest.read();
  const std::filesystem::path weights = plan.devices.front().model.weights.path();
  std::vector<std::string> lines;
  for (const std::size_t number : plan.share) {
    const BatchScene& scene = plan.scenes[number];
    const auto found = records.find(scene.name);
    const auto last = found == records.end() ? std::nullopt : std::optional(found->second);
    const auto reason = reason_to_run(last, fingerprint_of(scene_options(plan.options, scene), weights),
                                      scene_folder(plan.options, scene.name), plan.retry_failed);
    lines.push_back(scene.name + ": " + (reason ? "to do (" + *reason + ")" : state_name(last->state)));
  }
  return lines;
}

}  // namespace vggt
