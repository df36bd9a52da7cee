#pragma once

namespace vggt {

/// What computes attention on a GPU; they differ in rounding and speed.
enum class AttentionVariant {
  automatic,  // the fastest for type, sizes and GPU that keeps the type's accuracy, ours or LibTorch's
  strict,     // fp32, IEEE arithmetic, no tensor cores
  split,      // fp32 at fp32's accuracy, on tensor cores by splitting operands
  turbo,      // fp32 with TF32's mantissa, on tensor cores
  half,       // bf16 and fp16 with an fp32 state, on tensor cores
  sdpa,       // LibTorch's kernels, any type
};

constexpr const char* kVariantNames[] = {"auto", "strict", "split", "turbo", "half", "sdpa"};

constexpr const char* variant_name(AttentionVariant variant) {
  return kVariantNames[static_cast<int>(variant)];
}

}  // namespace vggt
