#pragma once
#include "app/cli/command_line.h"
#include "app/events/events.h"

namespace vggt {

/// `vggt-recon eval`: prints how far cameras, depth and clouds are from the true ones, and writes it as JSON
/// if asked. Compares what both sides hold. Throws std::invalid_argument and std::system_error for what
/// cannot be read or compared, and Stopped.
void run_eval_command(const EvalCommand& command, const Events& events);

}  // namespace vggt
