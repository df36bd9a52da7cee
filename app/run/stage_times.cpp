#include "app/run/stage_times.h"

#include <algorithm>

namespace vggt {

void StageTimes::count(const std::string& stage) {
  const Clock::time_point now = Clock::now();
  add(stage, std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

void StageTimes::add(const std::string& stage, double seconds) {
  const auto found = std::ranges::find(stages_, stage, &std::pair<std::string, double>::first);
  if (found == stages_.end()) {
    stages_.emplace_back(stage, seconds);
  } else {
    found->second += seconds;
  }
}

}  // namespace vggt
