#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

/// Times ours beside LibTorch's backends, all of a size in turns, and prints a row for each as it is done.
/// What runs out of memory or is refused has the reason in its row. Returns the rows.
nlohmann::ordered_json attention_table(const AttentionBenchOptions& options, at::Device device,
                                       const Print& print);

/// attention_lean() with keys and values in the host's memory, for chunks of several sizes.
nlohmann::ordered_json lean_table(const AttentionBenchOptions& options, at::Device device,
                                  const Print& print);

/// Times the forms of the prefix scan over length.
nlohmann::ordered_json scan_table(const AttentionBenchOptions& options, at::Device device,
                                  const Print& print);

/// The types that are asked for, or the device's.
std::vector<std::string> types_of(const AttentionBenchOptions& options, at::Device device);

}  // namespace vggt
