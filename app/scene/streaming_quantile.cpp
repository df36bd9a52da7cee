#include "app/scene/streaming_quantile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

namespace vggt {
namespace {

constexpr std::size_t kMinSpare = 1 << 20;

/// Index in ascending order of the value at or just below the quantile of `count` numbers.
int64_t lower_index(double quantile, int64_t count) {
  return static_cast<int64_t>(std::floor(quantile * static_cast<double>(count - 1)));
}

}  // namespace

StreamingQuantile::StreamingQuantile(double quantile, int64_t max_count)
    : quantile_(quantile), lower_bound_(-std::numeric_limits<float>::infinity()) {
  if (!(quantile >= 0 && quantile <= 1)) throw std::logic_error("StreamingQuantile: quantile outside [0,1]");
  // Enough for shorter streams too, because count - lower_index(count) never falls as count rises. One more,
  // because the index may be rounded.
  keep_ = static_cast<std::size_t>(max_count > 0 ? max_count - lower_index(quantile, max_count) + 1 : 1);
  capacity_ = keep_ + std::max(kMinSpare, keep_ / 4);
}

void StreamingQuantile::add(float value) {
  ++count_;
  if (value < lower_bound_) return;
  top_.push_back(value);
  if (top_.size() >= capacity_) prune();
}

void StreamingQuantile::prune() {
  const auto last_kept = top_.begin() + static_cast<std::ptrdiff_t>(keep_) - 1;
  std::nth_element(top_.begin(), last_kept, top_.end(), std::greater<>());
  lower_bound_ = *last_kept;
  top_.resize(keep_);
}

double StreamingQuantile::quantile() {
  if (count_ == 0) return 0;
  const double position = quantile_ * static_cast<double>(count_ - 1);
  const int64_t lower = lower_index(quantile_, count_);
  const auto from_top = static_cast<std::ptrdiff_t>(count_ - 1 - lower);
  const auto at_lower = top_.begin() + from_top;
  std::nth_element(top_.begin(), at_lower, top_.end(), std::greater<>());
  const double low = *at_lower;
  if (from_top == 0) return low;
  const double high = *std::min_element(top_.begin(), at_lower);
  return low + (high - low) * (position - static_cast<double>(lower));
}

}  // namespace vggt
