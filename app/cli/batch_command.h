#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"

namespace vggt {

/// `vggt-recon batch`: makes the process' settings, runs run_batch(), and prints a table of the scenes; with
/// --status the table alone, with --dry-run what would be done. In a Slurm array it takes its task's share.
/// Throws std::invalid_argument where scenes failed, what stopped the batch, and as plan_batch().
void run_batch_command(const BatchCommand& command, Console& console);

}  // namespace vggt
