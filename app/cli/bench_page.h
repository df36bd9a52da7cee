#pragma once
#include "app/cli/command_line.h"
#include "app/cli/console.h"

namespace vggt {

/// `vggt-recon bench`: the page of a machine. Attention by kind, linear layers, blocks and the network beside
/// LibTorch's, the whole program: printed as it comes, and written as JSON where asked. Throws
/// std::invalid_argument for a device, weights or a file that cannot be used, before anything is measured.
void run_bench_page(const BenchPageCommand& command, Console& console);

}  // namespace vggt
