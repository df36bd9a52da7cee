#pragma once
#include "app/cli/console.h"
#include "app/options/options.h"
#include "app/run/failure.h"

namespace vggt {

/// `vggt-recon --frames … --out …`: makes the process' settings, runs reconstruct(), or describe() with
/// --dry-run, and prints what came of it. With several devices it runs as so many processes, of which rank 0
/// prints. Returns what this one shall end with.
ExitCode run_reconstruct_command(const Options& options, Console& console);

}  // namespace vggt
