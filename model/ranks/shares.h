#pragma once
#include <algorithm>
#include <cstdint>

namespace vggt {

/// `total` things in order, divided into parts that differ by one at most.
struct Shares {
  int64_t total = 1, parts = 1;

  int64_t begin(int64_t part) const { return total * part / parts; }
  int64_t count(int64_t part) const { return begin(part + 1) - begin(part); }
  /// Of the piece of a part that begins with its thing `first`, at most `most`.
  int64_t count_from(int64_t part, int64_t first, int64_t most) const {
    return std::clamp<int64_t>(count(part) - first, 0, most);
  }
  /// Of the largest part.
  int64_t most() const { return (total + parts - 1) / parts; }
};

}  // namespace vggt
