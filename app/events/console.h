#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spdlog {
class logger;
}

namespace vggt {

enum class Talk { quiet, normal, verbose };

/// What a person sees: messages and progress on standard error, the result on standard output.
/// Quiet leaves warnings and errors. To be used from one thread.
class Console {
 public:
  explicit Console(Talk talk);

  void detail(const std::string& text);  // verbose only
  void info(const std::string& text);
  void warn(const std::string& text);  // also kept, for the report
  void error(const std::string& text);
  void result(const std::string& text);  // standard output; not if quiet

  /// Progress of a stage, `done` from 0 to `total` (0: not known), with rate and time left: one line that
  /// renews itself on a terminal, else a plain line every 5 s at most. `unit` is what is counted, such as
  /// "frames".
  void progress(const std::string& stage, const std::string& unit, int64_t done, int64_t total);

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  using Clock = std::chrono::steady_clock;
  void clear_line();

  std::shared_ptr<spdlog::logger> logger_;
  Talk talk_;
  bool is_terminal_;
  bool line_shown_ = false;
  std::string stage_;
  int64_t total_ = 0;
  Clock::time_point stage_start_, last_shown_;
  std::vector<std::string> warnings_;
};

/// The line that progress() shows, such as "aggregator: 12/48 blocks, 3.1 blocks/s, 12 s left".
std::string progress_line(const std::string& stage, const std::string& unit, int64_t done, int64_t total,
                          double seconds);

}  // namespace vggt
