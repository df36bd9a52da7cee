#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

/// Times the forms of the prefix scan over its length, and prints a row for each. Returns the rows; none
/// unless the group `scan` is asked for.
nlohmann::ordered_json scan_table(const AttentionBenchOptions& options, at::Device device,
                                  const Print& print);

}  // namespace vggt
