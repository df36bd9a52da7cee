#pragma once
#include "attention/attention_types.h"

namespace vggt {

/// The state (m, s, w) of attention by definition, with all logits of a few queries at a time, in the type of
/// q (fp64 or fp32) on any device. Every other implementation is measured against it. scale must be set.
AttentionResult attention_by_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        double scale);

}  // namespace vggt
