#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"

namespace vggt {

/// `vggt-recon bench`: the page of a machine. Attention by kind, linear layers, blocks, the network and the
/// whole program beside LibTorch's: printed as it comes, and as JSON, into a file where asked. Throws
/// std::invalid_argument for a device, weights or a file that cannot be used, before anything is measured;
/// std::system_error where nobody takes what is printed, in the section where that comes about.
void run_bench_page(const BenchPageCommand& command, Console& console);

}  // namespace vggt
