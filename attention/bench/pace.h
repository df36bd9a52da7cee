#pragma once
#include <functional>
#include <string>
#include <vector>

namespace vggt {

/// Why something is not measured.
inline constexpr const char* kBeyondTime = "beyond the time";
inline constexpr const char* kBeyondMemory = "beyond the memory";

/// The time that a part of a benchmark may still take. Its cases come from short to long: the first one
/// always runs, a later one where the speed of the one before lets it expect to end in time.
class Pace {
 public:
  /// check_stop: called between measurements; it may throw.
  Pace(double seconds, std::function<void()> check_stop);

  /// So much of the time that is left, for a part of its own.
  Pace part(double share) const;
  double left() const;
  void check_stop() const;
  /// The call, after check_stop().
  std::function<void()> checked(std::function<void()> call) const;

  /// Whether a case fits of which one round, in which all take a turn, has so many operations.
  bool fits(double operations) const;
  /// Why one does not.
  std::string why_not() const;
  /// What those that took turns in a case of so many operations needed, as Turns::time() tells it.
  void took(double operations, const std::vector<std::vector<double>>& seconds);

 private:
  double end_;  // seconds of the steady clock
  std::function<void()> check_stop_;
  double seconds_per_operation_ = 0;
};

}  // namespace vggt
