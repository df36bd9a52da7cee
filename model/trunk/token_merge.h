#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/merge_options.h"
#include "model/trunk/token_match.h"

// Token merging as in FastVGGT (merging/merge.py): attention runs on fewer rows, each the mean of tokens
// that are alike, and every token takes the output of its row.
namespace vggt {

/// The part of every token, which depends on sizes and the seed alone: one layout serves all blocks. All
/// int64, in ascending order, on one device.
struct MergeLayout {
  int64_t tokens = 0;           // N
  int64_t most_merged = 0;      // r
  at::Tensor destinations;      // [d] all of frame 0, special tokens, one drawn patch of each 2×2 cell
  at::Tensor sources;           // [s] the others, without protected tokens
  at::Tensor protected_tokens;  // [p]
  // How many sources and destinations lie before each frame, and in all: [S+1].
  std::vector<int64_t> sources_before, destinations_before;
};

/// Draws on the CPU, so that every device merges the same tokens. Throws std::invalid_argument for options
/// that check_merge_options() refuses.
MergeLayout merge_layout(int64_t frames, int64_t rows, int64_t columns, int64_t special,
                         const MergeOptions& options, at::Device device);

/// Which tokens of one block merge. Merged rows come as [unmerged sources, destinations, protected tokens],
/// each in the order of the tokens: M = u + d + p of them.
struct MergePlan {
  at::Tensor members;  // [N' ≤ N + p] int64: tokens of row 0, of row 1, ...; a destination before its sources
  at::Tensor offsets;    // [M+1] int64: where a row's members begin
  at::Tensor row_of;     // [N] int64: the row that each token takes back
  int64_t unmerged = 0;  // u

  int64_t rows() const { return offsets.size(0) - 1; }
  /// The mean of every row's tokens: x [N,...] contiguous -> out [M,...], of its type, which may be every
  /// other part of rows as in [M,3,...], and on another device. A row of one token is that token. Sums in a
  /// fixed order: the same on every run.
  void apply_into(at::Tensor& out, const at::Tensor& x) const;
  /// What each token takes back: [M,...] -> [N,...].
  at::Tensor undo(const at::Tensor& merged) const;
};

/// The r most similar sources merge into their destinations, the first one of equals. matches: of the
/// layout's sources with its destinations.
MergePlan plan_merge(const MergeLayout& layout, const TokenMatches& matches);

/// The same from a metric [N,C], what tokens are compared by: rows of unit length on the layout's device.
MergePlan plan_merge(const MergeLayout& layout, const at::Tensor& metric);

}  // namespace vggt
