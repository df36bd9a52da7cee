#include "app/cli/reconstruct_command.h"

#include "app/cli/first_contact.h"
#include "app/cli/process.h"
#include "app/report/summary.h"
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

}  // namespace

void run_reconstruct_command(const Options& options, Console& console) {
  set_process_threads(options.threads);
  const RunPlan plan = plan_run(options);
  set_process_precision(plan.model.options.precision);
  set_process_gpu_memory(plan.model.options.device, plan.limits.gpu_allocator);
  const Events events = console.events();
  if (options.dry_run) {
    for (const std::string& line : describe(plan, events)) console.result(line);
    return;
  }
  const Reconstruction result = reconstruct(plan, events);
  for (const WrittenFile& file : result.written) {
    const std::string path = file.path.string();
    if (file.what == Output::cloud) {
      console.result(
          scene_text(path, static_cast<std::size_t>(result.report.points), result.report.total_seconds));
    }
    if (file.what == Output::picture) console.result(path + ": picture");
    if (file.what == Output::page) console.result(path + ": page");
    if (file.what == Output::exported) console.result(path + ": exported");
    if (file.what == Output::predictions) console.result(path + ": predictions");
  }
  const std::filesystem::path seen = best_to_look_at(result.written, options.open);
  if (seen.empty()) return;
  if (options.open && open_in_viewer(seen)) return console.result(seen.string() + ": opened");
  if (options.open) console.warn("open: there is no desktop here, or no xdg-open");
  console.result(viewing_text(seen));
}

}  // namespace vggt
