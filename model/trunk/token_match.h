#pragma once
#include <ATen/ATen.h>

#include "model/layers/work_sizes.h"

namespace vggt {

struct TokenMatches {
  at::Tensor score;  // [s] of the best destination: fp32, fp64 of a metric in fp64
  at::Tensor best;   // [s] int64: its place in `destinations`
};

/// The most similar destination of every source, by products of rows of the metric; the first one of equals.
/// metric [N,C]; sources [s] and destinations [d > 0] int64, rows of it. Holds at most so many scores at a
/// time. A metric in bf16 or fp16 must be on a GPU.
TokenMatches best_destinations(const at::Tensor& metric, const at::Tensor& sources,
                               const at::Tensor& destinations, int64_t most_scores = kMatchScores);

}  // namespace vggt
