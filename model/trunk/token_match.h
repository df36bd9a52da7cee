#pragma once
#include <ATen/ATen.h>

#include "model/layers/work_sizes.h"

namespace vggt {

struct TokenMatches {
  at::Tensor score;  // [s] of the best destination: fp32, fp64 of rows in fp64
  at::Tensor best;   // [s] int64: its row of `destinations`
};

/// The destination of the largest dot product with each source; the first one of equals. A product that is
/// NaN counts as -inf, the score where all do; the best is then row 0. sources [s,C] and destinations [d >
/// 0,C]: contiguous, of one type, on one device; sources may be any piece of all. Products of bf16 and fp16
/// are summed in fp32. On Hopper's tensor cores by match_fused() (fused_match.h, which names the memory), on
/// CPUs with AVX512-VNNI, but for fp64, by match_screened() (screened_match.h; what that leaves, by scores of
/// kLeftSources rows), else by scores, at most so many at once.
TokenMatches best_destinations(const at::Tensor& sources, const at::Tensor& destinations,
                               int64_t most_scores = kMatchScores);

}  // namespace vggt
