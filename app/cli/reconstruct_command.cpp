#include "app/cli/reconstruct_command.h"

#include "app/cli/process.h"
#include "app/report/summary.h"
#include "app/run/reconstruct.h"

namespace vggt {

void run_reconstruct_command(const Options& options, Console& console) {
  set_process_threads(options.threads);
  const RunPlan plan = plan_run(options);
  set_process_precision(plan.model.options.precision);
  const Events events = console.events();
  if (options.dry_run) {
    for (const std::string& line : describe(plan, events)) console.result(line);
    return;
  }
  const Reconstruction result = reconstruct(plan, events);
  for (const WrittenFile& file : result.written) {
    if (file.what == "cloud") {
      console.result(scene_text(file.path.string(), result.report.points, result.report.total_seconds));
    } else if (file.what == "picture" || file.what == "predictions") {
      console.result(file.path.string() + ": " + file.what);
    }
  }
}

}  // namespace vggt
