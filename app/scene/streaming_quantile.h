#pragma once
#include <cstdint>
#include <vector>

namespace vggt {

/// The exact quantile of a stream of numbers, of which only the part above the quantile is kept: of N numbers
/// (1 - quantile)·N, and a quarter or a million more until the next pruning. Its memory grows with the
/// stream.
class StreamingQuantile {
 public:
  /// `quantile` in [0,1]; at most `max_count` numbers will come.
  StreamingQuantile(double quantile, int64_t max_count);

  void add(float value);
  /// No value below this bound can reach the quantile any more. The bound rises as numbers come.
  float lower_bound() const { return lower_bound_; }
  /// The quantile of all numbers so far, linear between neighbours (as numpy's default); 0 without numbers.
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
