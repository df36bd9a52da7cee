#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/options/options.h"
#include "app/scene/scene_builder.h"

namespace vggt {

/// Seconds of named stages, in the order in which they first ended. Time is counted from one event to the
/// next.
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

/// What <name>.report.json says.
struct Report {
  Options options;
  std::string weights, device, precision, heads, poses, cloud_source;
  std::vector<std::string> frames_used, frames_skipped, warnings, notes;
  int network_width = 0, network_height = 0;
  std::vector<FilterCount> filters;
  double conf_threshold = 0, median_depth = 0;
  int64_t points = 0;
  std::vector<std::pair<std::string, double>> stage_seconds;
  double total_seconds = 0;
  int64_t peak_device_bytes = 0;  // 0: no device
  std::map<std::string, std::string> versions;
};

/// Versions of the program and of the libraries that do not come with torch.
std::map<std::string, std::string> library_versions();
/// Largest resident size of this process so far.
int64_t peak_host_bytes();

void write_report(const std::filesystem::path& path, const Report& report);

}  // namespace vggt
