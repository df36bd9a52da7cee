#pragma once
#include "attention/bench/pace.h"
#include "attention/bench/rows.h"
#include "model/bench/network_bench.h"

namespace vggt {

/// One frame block and one global block of so many frames beside the same of LibTorch's operations
/// (TorchBlock), in turns. Lengths beyond the pace are left out. Not for fp64.
void block_rows(const NetworkBench& bench, Pace pace, const ShowRow& show);

}  // namespace vggt
