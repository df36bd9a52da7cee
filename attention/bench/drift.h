#pragma once
#include <array>
#include <string>
#include <vector>

#include "attention/bench/contenders.h"

namespace vggt {

constexpr int kDriftMetrics = 6;
inline constexpr const char* kDriftNames[kDriftMetrics] = {"max|dP|",        "||dP||/||P||", "Jensen-Shannon",
                                                           "argmax differs", "max|dY|",      "||dY||/||Y||"};
enum DriftMetric { max_dp, relative_dp, jensen_shannon, argmax_differs, max_dy, relative_dy };

/// For each metric, one number for each (head, sampled token).
using Drift = std::array<std::vector<double>, kDriftMetrics>;

/// The weights and outputs in float64 of some tokens of each head. Divergences are in nats.
struct Oracle {
  AttentionInputs x;             // one sequence
  at::Tensor rows;               // [R] tokens
  std::vector<at::Tensor> p, y;  // of each head: [R,N], [R,D]

  Oracle(AttentionInputs inputs, int64_t most_rows);
  /// The drift of a kernel with these p and y (fp64, by head as here). A token counts as "argmax differs"
  /// where the oracle's weight at the kernel's largest weight is smaller than the oracle's largest.
  Drift drift_of(const std::vector<at::Tensor>& p, const std::vector<at::Tensor>& y) const;
};

/// The drift of one of our kernels. Note [Weights of a kernel]: a kernel holds no row of P. Its weight of key
/// j is taken to be exp(l - lse), computed in float64. l is the log-sum-exp that the kernel returns over key
/// j alone, its logit as it rounds it. lse is the log-sum-exp that it returns over all keys.
Drift drift_of(const OurKernel& kernel, const Oracle& oracle);

/// The drift of LibTorch's math backend, whose weights are softmax(q·kᵀ·scale) in the type of q. tf32: fp32
/// operands are rounded to TF32 first.
Drift drift_of_math(const Oracle& oracle, bool tf32 = false);

}  // namespace vggt
