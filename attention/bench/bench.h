#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

struct AttentionBenchResult {
  std::string json;                   // all results
  std::vector<std::string> exceeded;  // with --verify: the results above their limits, in words
};

/// Measures what the options ask for on this device, and prints each result as it comes. Throws
/// std::invalid_argument for options that do not fit the device. A kernel that refuses has the reason in its
/// row.
AttentionBenchResult bench_attention(const AttentionBenchOptions& options, at::Device device,
                                     const Print& print);

/// Measures attention_streamed() beside attention() with everything on the device, and prints a row for each.
/// Returns all results as JSON. Throws std::invalid_argument for lengths that the host's memory cannot hold.
std::string bench_stream(const StreamBenchOptions& options, at::Device device, const Print& print);

}  // namespace vggt
