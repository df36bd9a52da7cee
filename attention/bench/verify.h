#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attention/bench/options.h"
#include "attention/bench/print.h"

namespace vggt {

struct VerifyResult {
  nlohmann::ordered_json json;
  std::vector<std::string> exceeded;  // what was above its limit, in words
};

/// Measures how exact each of our kernels is, and prints it: drift from float64 in three scenarios, states
/// over blocks of keys against one call, error against N, and how its calls are cut up.
VerifyResult verify_attention(const AttentionBenchOptions& options, at::Device device, const Print& print);

}  // namespace vggt
