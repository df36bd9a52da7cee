#pragma once
#include "attention/bench/pace.h"
#include "attention/bench/rows.h"

namespace vggt {

/// The linear layers of a block of VGGT-1B, as the network computes them, beside LibTorch's at::linear and
/// at::gelu, in turns: in fp32, and in bf16 where the device has it. "mlp": fc1, GELU, fc2. On a GPU
/// LibTorch's products in fp32 must not be TF32. Sizes beyond the pace are left out.
void linear_rows(at::Device device, bool has_bf16, Pace pace, const ShowRow& show);

}  // namespace vggt
