#pragma once
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace vggt {

/// Seconds of named stages, in the order in which the stages first ended. A stage's time runs from the last
/// event to the next.
class StageTimes {
 public:
  /// The time since the last event belongs to no stage.
  void restart() { last_ = Clock::now(); }
  /// The time since the last event belongs to this stage.
  void count(const std::string& stage);
  void add(const std::string& stage, double seconds);

  const std::vector<std::pair<std::string, double>>& stages() const { return stages_; }
  double total() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), last_ = start_;
  std::vector<std::pair<std::string, double>> stages_;
};

}  // namespace vggt
