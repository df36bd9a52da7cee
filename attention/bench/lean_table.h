#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

/// Times attention_lean() (see stream/lean.h) with keys and values in host memory, for chunks of several
/// sizes, and prints a row for each. Returns the rows; none unless the group `lean` is asked for.
nlohmann::ordered_json lean_table(const AttentionBenchOptions& options, at::Device device,
                                  const Print& print);

}  // namespace vggt
