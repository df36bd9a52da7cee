#pragma once
#include "app/cli/command_line.h"
#include "app/events/events.h"

namespace vggt {

/// Times or verifies attention, or times streamed attention, prints as it goes, and writes the numbers where
/// asked. Throws std::invalid_argument for options that do not fit, std::runtime_error where a limit is
/// exceeded.
void run_bench_command(const BenchCommand& command, const Events& events);

}  // namespace vggt
