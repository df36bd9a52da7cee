#include "app/cli/batch_command.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "app/batch/batch_index.h"
#include "app/batch/batch_run.h"
#include "app/batch/batch_table.h"
#include "app/batch/file_lock.h"
#include "app/batch/scene_options.h"
#include "app/cli/first_contact.h"
#include "app/cli/process.h"
#include "io/files/machine_share.h"
#include "io/files/text.h"
#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

/// A batch that was stopped has written what it had finished.
struct BatchStopped : Stopped {
  const char* what() const noexcept override {
    return "stopped; the same command does the scenes that are missing";
  }
};

std::vector<std::string> names_of(const std::vector<BatchScene>& scenes) {
  std::vector<std::string> names;
  for (const BatchScene& scene : scenes) names.push_back(scene.name);
  return names;
}

/// Of the scenes that --scenes names, or else of all that the manifest knows.
void show_status(const BatchCommand& command, Console& console) {
  check_batch_options(command.options);
  const std::filesystem::path results = command.options.out;
  const std::filesystem::path file = results / "manifest.jsonl";
  if (!std::filesystem::exists(file))
    throw std::invalid_argument("out: " + results.string() + " holds no manifest.jsonl of a batch");
  ManifestReader manifest(file);
  const SceneRecords& records = manifest.read();
  std::vector<std::string> names;
  if (command.scenes.empty()) {
    for (const auto& [name, record] : records) names.push_back(name);
    std::ranges::sort(names, natural_less);
  } else {
    names = names_of(find_scenes(command.scenes, results).scenes);
  }
  for (const std::string& line : table_lines(scene_rows(names, records, results / ".claims")))
    console.result(line);
  if (command.scenes.empty())
    console.result("scenes that nobody has begun are not among these; --scenes adds them");
}

BatchRequest request_of(const BatchCommand& command) {
  BatchRequest request{command.options, command.scenes, command.jobs, command.retry_failed, std::nullopt};
  request.shard = command.shard.empty() ? slurm_shard([](const char* name) { return std::getenv(name); })
                                        : std::optional(parse_shard(command.shard));
  return request;
}

void make_settings(const BatchCommand& command, const BatchPlan& plan) {
  const ModelOptions& model = plan.devices.front().model.options;
  int64_t threads = command.options.threads;
  if (threads == 0 && plan.jobs > 1 && model.device.is_cpu())
    threads = std::max<int64_t>(1, usable_cores() / plan.jobs);
  set_process_threads(threads);
  set_process_precision(model.precision);
  set_process_host_memory(plan.devices.front().limits.host.has_value());
  for (const RunPlan& device : plan.devices)
    set_process_gpu_memory(device.model.options.device, device.limits.gpu_allocator);
}

/// Such as "3 of 12 scenes ", what of them, and the names of some.
std::string some_of(const std::vector<std::string>& names, std::size_t scenes, const std::string& what) {
  constexpr std::size_t kNamed = 5;
  return std::to_string(names.size()) + " of " + std::to_string(scenes) +
         (scenes == 1 ? " scene " : " scenes ") + what + ": " + first_of(names, kNamed);
}

/// Throws for a batch whose share is not done.
void check_result(const std::vector<SceneRow>& rows, const BatchResult& result) {
  if (result.failure) std::rethrow_exception(result.failure);
  if (result.stopped) throw BatchStopped();
  std::vector<std::string> failed;
  for (const SceneRow& row : rows) {
    if (row.state == "failed") failed.push_back(row.scene);
  }
  std::string text;
  if (!failed.empty()) text = some_of(failed, rows.size(), "failed") + "; --retry-failed does them again";
  if (!result.done_otherwise.empty())
    text +=
        (text.empty() ? "" : "; ") +
        some_of(result.done_otherwise, rows.size(), "had another process's options or weights meanwhile") +
        "; the same command does them again";
  if (!text.empty()) throw std::invalid_argument(text);
}

/// Of all scenes, as other processes of the batch see them now. They take turns, so that the last one to
/// write is the last one to look.
void write_index(const BatchPlan& plan) {
  FileLock lock(plan.results / ".index.lock");
  const FileLock::Turn turn(lock);
  ManifestReader manifest(plan.manifest());
  write_batch_index(plan.results, scene_rows(names_of(plan.scenes), manifest.read(), plan.claims()));
}

}  // namespace

void run_batch_command(const BatchCommand& command, Console& console) {
  if (command.status) return show_status(command, console);
  const BatchPlan plan = plan_batch(request_of(command));
  make_settings(command, plan);
  if (command.options.dry_run) {
    for (const std::string& note : plan.notes) console.info(note);
    for (const std::string& line : describe(plan)) console.result(line);
    return;
  }
  const BatchResult result = run_batch(plan, console.events());
  std::vector<std::string> names;
  for (const std::size_t number : plan.share) names.push_back(plan.scenes[number].name);
  const std::vector<SceneRow> rows = scene_rows(names, result.records, plan.claims());
  for (const std::string& line : table_lines(rows)) console.result(line);
  if (command.options.report && !result.failure) {
    write_index(plan);
    const std::filesystem::path index = plan.results / "index.html";
    const bool opened = command.options.open && open_in_viewer(index);
    if (command.options.open && !opened) console.warn("open: there is no desktop here, or no xdg-open");
    console.result(opened ? index.string() + ": opened" : viewing_text(index));
  }
  check_result(rows, result);
}

}  // namespace vggt
