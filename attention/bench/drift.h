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

/// One number for each (head, sampled token), by metric.
using Drift = std::array<std::vector<double>, kDriftMetrics>;

/// What float64 says about some tokens of each head. Divergences in nats.
struct Oracle {
  AttentionInputs x;             // one sequence
  at::Tensor rows;               // [R] tokens
  std::vector<at::Tensor> p, y;  // of each head: [R,N], [R,D]

  Oracle(AttentionInputs inputs, int64_t most_rows);
  /// p, y: of a kernel, by head as here, fp64. A token whose largest weight is elsewhere counts where the
  /// oracle's weight there is smaller than its largest.
  Drift drift_of(const std::vector<at::Tensor>& p, const std::vector<at::Tensor>& y) const;
};

/// The drift of one of our kernels. Note [Weights of a kernel]: a kernel holds no row of P. Its weight of key
/// j is taken to be exp(l - lse): l its own log-sum-exp over key j alone, which is its logit as it rounds it,
/// and lse that over all keys, both as it returns them; the difference and its exponential in float64.
Drift drift_of(const OurKernel& kernel, const Oracle& oracle);

/// The drift of LibTorch's math backend, with its weights softmax(q·kᵀ·scale) in the type of q. tf32: of fp32
/// operands rounded to TF32.
Drift drift_of_math(const Oracle& oracle, bool tf32 = false);

}  // namespace vggt
