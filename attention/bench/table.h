#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

/// Times our kernels beside LibTorch's backends, all of a size in turns, and prints a row for each. A kernel
/// that runs out of memory or refuses has the reason in its row. Where the options name no kernels, a row
/// "auto" is what attention() takes by itself, and says which kernel that is ("taken"). Returns the rows.
nlohmann::ordered_json attention_table(const AttentionBenchOptions& options, at::Device device,
                                       const Print& print);

/// The types that the options ask for; by default all that suit the device.
std::vector<std::string> types_of(const AttentionBenchOptions& options, at::Device device);

}  // namespace vggt
