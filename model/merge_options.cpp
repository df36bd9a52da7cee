#include "model/merge_options.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace vggt {
namespace {

void check_share(const char* name, double share) {
  // Written so that a NaN fails.
  if (!(share >= 0 && share <= 1)) {
    throw std::invalid_argument(std::string("merge ") + name + ": expected a number from 0 to 1, got " +
                                std::to_string(share));
  }
}

}  // namespace

void check_merge_options(const MergeOptions& options) {
  check_share("ratio", options.ratio);
  check_share("protect", options.protect);
  if (options.refresh < 1) {
    throw std::invalid_argument("merge refresh: expected at least 1 block, got " +
                                std::to_string(options.refresh));
  }
  if (options.metric < 0) {
    throw std::invalid_argument("merge metric: expected a number of channels, or 0 for all, got " +
                                std::to_string(options.metric));
  }
  if (options.start < 0) {
    throw std::invalid_argument("merge start: expected a block from 0 on, got " +
                                std::to_string(options.start));
  }
}

int64_t metric_width(const MergeOptions& options, int64_t channels) {
  return options.metric > 0 ? std::min(options.metric, channels) : channels;
}

int64_t MergeCounts::most_rows() const {
  return std::max<int64_t>(0, tokens - destinations - most_merged) + destinations + protected_tokens;
}

MergeCounts merge_counts(int64_t frames, int64_t rows, int64_t columns, int64_t special,
                         const MergeOptions& options) {
  check_merge_options(options);
  const int64_t of_frame = special + rows * columns, drawn = (rows / 2) * (columns / 2);
  MergeCounts counts;
  counts.tokens = frames * of_frame;
  counts.destinations = of_frame + (frames - 1) * (special + drawn);
  const auto share = [&](double part) {
    return static_cast<int64_t>(part * static_cast<double>(counts.tokens));
  };
  counts.protected_tokens = share(options.protect);
  if (counts.protected_tokens > 0) counts.protected_step = counts.tokens / counts.protected_tokens;
  counts.most_merged = share(options.ratio);
  return counts;
}

}  // namespace vggt
