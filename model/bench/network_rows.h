#pragma once
#include "attention/bench/pace.h"
#include "attention/bench/rows.h"
#include "model/bench/network_bench.h"

namespace vggt {

/// Seconds of the whole network with its camera and depth heads on random pixels: with exact attention, and
/// with merged tokens from kMergedFrames frames on. Beside exact attention, in turns, the same network of
/// LibTorch's operations and of the same weights (TorchNetwork); where it has no time or no memory,
/// "libtorch_left_out" says so. Lengths beyond the pace or the budget of memory are left out. peak_bytes is
/// that of one network's weights and of what a run takes beside them.
void network_rows(const NetworkBench& bench, Pace pace, const ShowRow& show);
inline constexpr int64_t kMergedFrames = 8;

}  // namespace vggt
