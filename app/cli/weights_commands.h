#pragma once
#include "app/cli/command_line.h"

namespace vggt {

/// `vggt-recon weights inspect|convert|verify|random`.
void run_weights_command(const WeightsCommand& command);

}  // namespace vggt
