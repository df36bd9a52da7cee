#pragma once
// For each row of x the row of y with the largest dot product, on Hopper's tensor cores, where scores never
// reach memory. Free of torch.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/layers/split_gemm.h"

namespace vggt {

/// Rows of bf16 or fp16: x [rows,columns], y [candidates,columns], both contiguous and aligned to 16 bytes.
struct HalfMatch {
  const void *x = nullptr, *y = nullptr;
  int rows = 0, candidates = 0;
  int columns = 0;  // a multiple of 8
  bool bf16 = false;
};

// The best so far of each row is a key: its score's bits, so ordered that a larger number is a better score,
// above the complement of its place, so that the first of equals is the largest. Blocks merge their results
// by atomicMax(), whose order does not matter.

/// keys [rows]: no candidate yet, that is score -inf at place 0.
cudaError_t start_matches(uint64_t* keys, int64_t rows, cudaStream_t stream);

/// Improve the keys by all candidates. A product that is NaN is never the best. Only where sm90a_built().
cudaError_t match_half_sm90(const HalfMatch& match, uint64_t* keys, cudaStream_t stream);
/// The same of fp32 in parts; first: the place of y's first row. See Note [Splitting rows].
cudaError_t match_split_sm90(const SplitMatrix& x, const SplitMatrix& y, int first, uint64_t* keys,
                             cudaStream_t stream);

/// scores [rows], and places in the place of the keys.
cudaError_t finish_matches(uint64_t* keys, float* scores, int64_t rows, cudaStream_t stream);

}  // namespace vggt
