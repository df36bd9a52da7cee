#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "attention/bench/pace.h"

namespace vggt {

/// Takes a row of results as it comes: numbers by name, null where there is none.
using ShowRow = std::function<void(const nlohmann::ordered_json& row)>;

/// Attention of one sequence, 16 heads of 64, by each kind that the device has, beside the fastest of
/// LibTorch's kernels whose error against float64, measured here, keeps the kind's limit (limits.h): all of a
/// length in turns. On a GPU these include LibTorch's definition with products in TF32.
void attention_kinds(at::Device device, Pace pace, const ShowRow& show);

}  // namespace vggt
