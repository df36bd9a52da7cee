#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"

namespace vggt {

/// `vggt-recon weights inspect|convert|verify|random`.
void run_weights_command(const WeightsCommand& command, Console& console);

}  // namespace vggt
