#pragma once

namespace vggt {

/// The types of a product's operands that kernels of fp32 state take.
enum class OperandType { fp32, bf16, fp16 };

}  // namespace vggt
