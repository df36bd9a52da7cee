#pragma once
#include <cstdint>

// What token merging is asked for, and the counts that follow: arithmetic alone, without tensors.
namespace vggt {

/// Token merging in global attention (FastVGGT, arXiv 2509.02560), with its values as defaults.
struct MergeOptions {
  int64_t start = 0;   // the first global block that merges; none does from the model's depth on
  double ratio = 0.9;  // tokens that merge into others, as a share of all; fewer where fewer can
  double protect =
      0.1;              // tokens that attention takes as themselves besides, evenly spaced, as a share of all
  int64_t refresh = 1;  // blocks that one matching serves; the reference matches in each
  int64_t metric =
      0;  // numbers that tokens are compared by, made from all channels; 0: the channels themselves
  uint64_t seed = 33;  // of the draw of destinations, the same in every block and on every device
};

/// Throws std::invalid_argument: a share outside [0,1] or not a number, a negative block or metric, a refresh
/// below 1.
void check_merge_options(const MergeOptions& options);

/// How many tokens take which part. One token may be protected and a destination, or protected and a source.
struct MergeCounts {
  int64_t tokens = 0;            // N
  int64_t destinations = 0;      // d; the other N - d are sources
  int64_t protected_tokens = 0;  // p
  int64_t protected_step = 1;    // protected are 0, step, 2·step, ...
  int64_t most_merged = 0;       // r: sources that merge, where so many are not protected; 0: nothing is done

  /// No more rows than these are attended: exact where all sources merge.
  int64_t most_rows() const;
};

/// How many numbers tokens of so many channels are compared by.
int64_t metric_width(const MergeOptions& options, int64_t channels);

/// Of frames of rows × columns patches, with so many special tokens each.
MergeCounts merge_counts(int64_t frames, int64_t rows, int64_t columns, int64_t special,
                         const MergeOptions& options);

}  // namespace vggt
