#include "app/cli/reconstruct_command.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "app/cli/earlier_result.h"
#include "app/cli/first_contact.h"
#include "app/cli/process.h"
#include "app/cli/rank_process.h"
#include "app/cli/stop.h"
#include "app/report/summary.h"
#include "app/run/device.h"
#include "app/run/rank_run.h"
#include "app/run/reconstruct.h"

namespace vggt {
namespace {

/// What a person looks at first: a page, else a picture if that is to be shown, else the cloud.
std::filesystem::path best_to_look_at(const std::vector<WrittenFile>& written, bool to_show) {
  std::filesystem::path best;
  int best_rank = 0;
  for (const WrittenFile& file : written) {
    int rank = 0;
    if (file.path.extension() == ".html") rank = 3;
    if (file.what == Output::picture) rank = to_show ? 2 : 0;
    if (file.what == Output::cloud) rank = 1;
    if (rank <= best_rank) continue;
    best = file.path;
    best_rank = rank;
  }
  return best;
}

void print(const Reconstruction& result, bool to_open, Console& console) {
  for (const WrittenFile& file : result.written) {
    const std::string path = file.path.string();
    if (file.what == Output::cloud) {
      console.result(
          scene_text(path, static_cast<std::size_t>(result.report.points), result.report.total_seconds));
    }
    if (file.what == Output::page) console.result(path + ": page");
    if (file.what == Output::picture) console.result(path + ": picture");
    if (file.what == Output::exported) console.result(path + ": exported");
    if (file.what == Output::predictions) console.result(path + ": predictions");
  }
  const std::filesystem::path seen = best_to_look_at(result.written, to_open);
  if (seen.empty()) return;
  if (to_open && open_in_viewer(seen)) return console.result(seen.string() + ": opened");
  if (to_open) console.warn("open: there is no desktop here, or no xdg-open");
  console.result(viewing_text(seen));
}

/// One process of a run; group: of several, or null.
void run_process(const Options& options, int64_t ranks, Group* group, Console& console) {
  if (options.out_is_beside && !(group && group->rank() > 0))
    check_earlier_result(options.frames, options.out);
  RunPlan plan = plan_run(options);
  if (ranks > 1) share_among(plan, ranks);
  set_process_precision(plan.model.options.precision);
  set_process_host_memory(plan.limits.host.has_value());
  set_process_gpu_memory(plan.model.options.device, plan.limits.gpu_allocator);
  const Events events = console.events();
  if (options.dry_run) {
    if (group && group->rank() > 0) return;
    for (const std::string& line : describe(plan, events)) console.result(line);
    return;
  }
  const Reconstruction result = reconstruct(plan, events, {.group = group});
  if (group && group->rank() > 0) return;
  std::string earlier;
  for (const auto& path : earlier_files(plan)) earlier += (earlier.empty() ? "" : ", ") + path.string();
  if (!earlier.empty()) console.warn("of an earlier run, not of this one: " + earlier);
  print(result, options.open, console);
}

void run_rank(Options options, const RankPlace& place, Console& console) {
  options.device = device_of_rank(place, options.device);
  const std::unique_ptr<NcclGroup> group = join_ranks(place, options.device, nccl_buffers(options));
  Console quiet(Verbosity::quiet);
  try {
    run_process(options, place.ranks, group.get(), place.rank == 0 ? console : quiet);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    const std::string lost = group->meeting().lost();
    if (lost.empty()) group->meeting().fail(explain(error).message);
    if (stop_requested()) throw Stopped();
    // What goes wrong once the group is lost is wrong because of that.
    if (!lost.empty()) throw RankLost(lost);
    throw;
  }
}

}  // namespace

ExitCode run_reconstruct_command(const Options& given, Console& console) {
  Options options = given;
  set_process_threads(options.threads);
  if (const auto place = place_of_process()) {
    run_rank(std::move(options), *place, console);
    return ExitCode::done;
  }
  const std::vector<int> gpus = listed_gpus(options.device);
  if (gpus.size() > 1 && !options.dry_run) return start_ranks(gpus);
  if (!gpus.empty()) options.device = "cuda:" + std::to_string(gpus.front());
  run_process(options, std::max<int64_t>(1, std::ssize(gpus)), nullptr, console);
  return ExitCode::done;
}

}  // namespace vggt
