#pragma once
#include "attention/bench/kinds.h"
#include "model/bench/network_bench.h"

namespace vggt {

/// Seconds of the whole network with its camera and depth heads on random pixels: with exact attention, and
/// with merged tokens from kMergedFrames frames on. Ends before a length that the budget of memory cannot
/// hold. peak_bytes is that of the weights and of what a run takes beside them.
void network_rows(const NetworkBench& bench, Pace pace, const ShowRow& show);
inline constexpr int64_t kMergedFrames = 8;

}  // namespace vggt
