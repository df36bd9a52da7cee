#pragma once
#include <ATen/ATen.h>

#include "attention/bench/pace.h"
#include "attention/bench/rows.h"

namespace vggt {

/// Attention of one sequence, 16 heads of 64, by each kind that the device has, beside the fastest of
/// LibTorch's kernels whose error against float64, measured here, keeps the kind's limit (limits.h): all of a
/// length in turns, in fp32 and, where the device has it, in bf16. Lengths beyond the pace are left out. On a
/// GPU these include LibTorch's definition with products in TF32.
void attention_kinds(at::Device device, bool has_bf16, Pace pace, const ShowRow& show);

}  // namespace vggt
