#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

/// Times attention() with everything on the device, and attention_streamed() from and to the host's memory,
/// pinned for a GPU, by each schedule, and prints a row for each. What runs out of memory or does not fit has
/// the reason in its row. Throws std::invalid_argument, before anything runs, for lengths that the host
/// cannot hold.
nlohmann::ordered_json stream_table(const StreamBenchOptions& options, at::Device device, const Print& print);

}  // namespace vggt
