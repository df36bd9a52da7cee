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
  std::vector<std::string> exceeded;  // the results above their limits, in words
};

/// Measures and prints how exact each of our kernels is: its drift from float64 in three scenarios, the error
/// of states over blocks of keys beside that of one call, its error over N, and how its calls are cut up.
VerifyResult verify_attention(const AttentionBenchOptions& options, at::Device device, const Print& print);

}  // namespace vggt
