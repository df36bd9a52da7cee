#pragma once
#include "app/command_line.h"

namespace vggt {

/// `vggt-recon eval`: prints how far poses are from true ones, and writes it as JSON if asked.
void run_eval_command(const EvalCommand& command);

}  // namespace vggt
