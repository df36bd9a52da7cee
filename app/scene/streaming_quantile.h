#pragma once
#include <cstdint>
#include <vector>

namespace vggt {

/// The quantile of a long stream of numbers, of which only the part above it is kept.
class TopShare {
 public:
  /// `quantile` in [0,1]; at most `max_count` numbers will come.
  TopShare(double quantile, int64_t max_count);

  void add(float value);
  /// No value below this can reach the quantile any more; grows with the stream.
  float lower_bound() const { return lower_bound_; }
  /// The quantile of all that came, linear between neighbours (as numpy's default); 0 if nothing came.
  double quantile();

 private:
  void prune();

  double quantile_;
  int64_t count_ = 0;
  std::size_t keep_, capacity_;
  float lower_bound_;
  std::vector<float> top_;
};

}  // namespace vggt
