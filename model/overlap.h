#pragma once
#include <cstdint>

namespace vggt {

/// Copies beside a computation, over a whole run: how long they took, how long the computation waited for
/// them, and how long both lasted together. On a GPU by its events.
struct Overlap {
  double copy_ms = 0, wait_ms = 0, total_ms = 0;
  int64_t bytes = 0;

  /// The share of the time in which nothing waited.
  double efficiency() const { return total_ms > 0 ? 1 - wait_ms / total_ms : 1; }
  Overlap& operator+=(const Overlap& other) {
    copy_ms += other.copy_ms;
    wait_ms += other.wait_ms;
    total_ms += other.total_ms;
    bytes += other.bytes;
    return *this;
  }
};

}  // namespace vggt
