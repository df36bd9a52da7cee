#include "app/cli/reconstruct_command.h"

#include "app/cli/process.h"
#include "app/report/summary.h"
#include "app/run/reconstruct.h"

namespace vggt {

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
    if (file.what == Output::exported) console.result(path + ": exported");
    if (file.what == Output::predictions) console.result(path + ": predictions");
  }
}

}  // namespace vggt
