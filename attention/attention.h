#pragma once
#include <optional>

#include "attention/attention_types.h"

namespace vggt {

/// Exact softmax attention without a mask: softmax(scale·q·kᵀ)·v over all keys. Any number of threads may
/// call it at once. q [B,A,Nq,D], k and v [B,A,Nk,D]: any strides with a contiguous last dimension, one type
/// (fp64, fp32, bf16, fp16) and device. Rows without keys give out = 0 and the identity state (-inf, 0, 0).
/// Throws c10::Error for shapes, types, devices or a variant that do not fit.
AttentionResult attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionOptions& options = {});

/// Room for q and k in parts, `largest` filled with zeros, for a call on q, k and v [B,A,N,D] (sizes) of this
/// type and device; `bounds` are the caller's to write. Nothing where attention() would not read them: by
/// rule it computes without parts, or the call a few heads at a time.
std::optional<QkParts> room_for_parts(at::IntArrayRef sizes, const at::TensorOptions& type,
                                      const AttentionOptions& options);

}  // namespace vggt
