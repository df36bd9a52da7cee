#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

struct AttentionBenchResult {
  std::string json;                   // everything that was measured
  std::vector<std::string> exceeded;  // with --verify: what was above its limit
};

/// Does what the options ask for on this device and prints as it goes. Throws std::invalid_argument for
/// options that do not fit the device; what a single kernel refuses is in its row.
AttentionBenchResult bench_attention(const AttentionBenchOptions& options, at::Device device,
                                     const Print& print);

}  // namespace vggt
