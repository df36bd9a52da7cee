#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace vggt {

/// A finite number as an unsigned integer of the same order, and back. Both zeros become one.
inline uint32_t ordered_key(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0F);
  return bits >> 31 ? ~bits : bits | uint32_t{1} << 31;
}
inline uint64_t ordered_key(double value) {
  const auto bits = std::bit_cast<uint64_t>(value + 0.0);
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}
inline float number_of(uint32_t key) {
  return std::bit_cast<float>(key >> 31 ? key & ~(uint32_t{1} << 31) : ~key);
}
inline double number_of(uint64_t key) {
  return std::bit_cast<double>(key >> 63 ? key & ~(uint64_t{1} << 63) : ~key);
}

/// Finds the key of a rank, and the next one, exactly and in constant memory: the same keys are gone through
/// in several passes. A pass counts keys by their next 16 bits, which says with which 16 bits the wanted ones
/// begin; when few are left, a last pass keeps them. Each thread counts into its own Tally.
template <std::unsigned_integral Key>
class RankSearch {
 public:
  struct Tally {
    std::vector<int64_t> counts;  // by digit
    std::vector<Key> kept;
    Key below = 0, above = std::numeric_limits<Key>::max();
  };

  Tally tally() const {
    Tally tally;
    if (step_ == Step::digits) tally.counts.resize(kDigits);
    return tally;
  }
  void count(Key key, Tally& tally) const {
    if (step_ == Step::between) {
      if (key < boundary_) {
        tally.below = std::max(tally.below, key);
      } else {
        tally.above = std::min(tally.above, key);
      }
    } else if (known_ == 0 || key >> (kBits - known_) == prefix_) {
      if (step_ == Step::digits) {
        ++tally.counts[static_cast<std::size_t>(key >> (kBits - known_ - 16)) % kDigits];
      } else {
        tally.kept.push_back(key);
      }
    }
  }
  /// Keys that the first pass counted.
  static int64_t total(const Tally& tally) {
    int64_t sum = 0;
    for (const int64_t count : tally.counts) sum += count;
    return sum;
  }
  static void merge(const Tally& from, Tally& into) {
    for (std::size_t i = 0; i < from.counts.size(); ++i) into.counts[i] += from.counts[i];
    into.kept.insert(into.kept.end(), from.kept.begin(), from.kept.end());
    into.below = std::max(into.below, from.below);
    into.above = std::min(into.above, from.above);
  }

  /// Before the first end_pass(): the wanted rank from 0, and whether the one behind it is wanted too. Both
  /// are less than the number of keys.
  void want(int64_t rank, bool next_too) {
    rank_ = rank;
    next_too_ = next_too;
  }
  /// Ends a pass, given the tallies of all threads as one.
  void end_pass(Tally& all) {
    if (step_ == Step::digits) return end_digits(all.counts);
    if (step_ == Step::between) {
      low_ = all.below;
      high_ = all.above;
    } else {
      const auto low = all.kept.begin() + static_cast<std::ptrdiff_t>(rank_);
      std::nth_element(all.kept.begin(), low, all.kept.end());
      low_ = high_ = *low;
      if (next_too_) high_ = *std::min_element(low + 1, all.kept.end());
    }
    step_ = Step::done;
  }
  bool done() const { return step_ == Step::done; }
  /// The key of the wanted rank; high(): of the next one, where that is wanted.
  Key low() const { return low_; }
  Key high() const { return high_; }

 private:
  enum class Step { digits, kept, between, done };
  static constexpr int kBits = std::numeric_limits<Key>::digits;
  static constexpr std::size_t kDigits = 1 << 16;
  static constexpr int64_t kMostKept = 1 << 22;  // keys

  void end_digits(const std::vector<int64_t>& counts) {
    std::size_t digit = 0;
    for (; rank_ >= counts[digit]; ++digit) rank_ -= counts[digit];
    const Key parent = static_cast<Key>(prefix_ << 16);
    prefix_ = parent | static_cast<Key>(digit);
    known_ += 16;
    const bool apart = next_too_ && rank_ + 1 == counts[digit];  // the next one begins with another digit
    std::size_t next = digit + (apart ? 1 : 0);
    while (apart && counts[next] == 0) ++next;
    const Key after = parent | static_cast<Key>(next);
    if (known_ == kBits) {
      low_ = prefix_;
      high_ = after;
      step_ = Step::done;
    } else if (apart) {
      boundary_ = after << (kBits - known_);
      step_ = Step::between;
    } else if (kBits - known_ > 16 && counts[digit] <= kMostKept) {
      step_ = Step::kept;
    }
  }

  Step step_ = Step::digits;
  int known_ = 0;   // leading bits
  Key prefix_ = 0;  // these bits
  int64_t rank_ = 0;
  bool next_too_ = false;
  Key boundary_ = 0;  // between the wanted two
  Key low_ = 0, high_ = 0;
};

/// Where a quantile in [0,1] of `count` (at least one) numbers lies: between a rank and the next one, by a
/// share of their difference (as numpy's default).
struct QuantilePlace {
  int64_t rank = 0;
  double share = 0;
  bool next_too = false;

  QuantilePlace(double quantile, int64_t count) {
    const double position = quantile * static_cast<double>(count - 1);
    rank = static_cast<int64_t>(std::floor(position));
    share = position - static_cast<double>(rank);
    next_too = rank + 1 < count;
  }
  double between(double low, double high) const { return next_too ? low + (high - low) * share : low; }
};

}  // namespace vggt
