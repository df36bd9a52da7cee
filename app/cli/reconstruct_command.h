#pragma once
#include "app/cli/console.h"
#include "app/options/options.h"

namespace vggt {

/// `vggt-recon --frames … --out …`: makes the process' settings, runs reconstruct(), or describe() with
/// --dry-run, and prints what came of it.
void run_reconstruct_command(const Options& options, Console& console);

}  // namespace vggt
