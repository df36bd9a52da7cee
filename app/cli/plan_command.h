#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"

namespace vggt {

/// `vggt-recon plan`: prints what a run of the network would take, with its seconds where the rates of this
/// machine are known or may be measured (not with --no-autotune), and writes it as JSON if asked. Of the
/// weight file only the header is read. Throws as plan_run() and read_frames(), and, after it has printed,
/// as check_fits().
void run_plan_command(const PlanCommand& command, Console& console);

}  // namespace vggt
