#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "app/events/events.h"

namespace spdlog {
class logger;
}

namespace vggt {

enum class Verbosity { quiet, normal, verbose };

/// What a person sees: messages and progress on standard error, the result on standard output.
/// Quiet leaves warnings and errors. To be used from one thread.
class Console {
 public:
  explicit Console(Verbosity verbosity);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  /// Leaves no line of progress on the terminal.
  ~Console() { clear_line(); }

  void detail(const std::string& text);  // verbose only
  void info(const std::string& text);
  void warn(const std::string& text);
  void error(const std::string& text);
  void result(const std::string& text);  // standard output; not if quiet

  /// Whether nobody takes what goes to the standard output: a result could not be written, or the reader of
  /// the pipe is gone. From any thread.
  bool output_is_lost() const;
  /// Throws std::system_error where it is lost.
  void check_output() const;
  /// Throws std::system_error where a result could not be written; a reader that has got all may be gone.
  void check_written() const;

  /// Progress of a stage, `done` from 0 to `total` (0: not known), with rate and time left: one line that
  /// renews itself on a terminal, else a plain line every 5 s at most. `unit` is what is counted, such as
  /// "frames".
  void progress(const std::string& stage, const std::string& unit, int64_t done, int64_t total);

  /// What a run tells, shown here; it stops where a signal asked for that. The console must outlive the
  /// events.
  Events events();

 private:
  using Clock = std::chrono::steady_clock;
  void clear_line();

  std::shared_ptr<spdlog::logger> logger_;
  Verbosity verbosity_;
  std::atomic<int> output_error_ = 0;  // errno of a result that could not be written
  bool is_terminal_;
  bool line_shown_ = false;
  std::string stage_;
  int64_t total_ = 0;
  Clock::time_point stage_start_, last_shown_;
};

/// The line that progress() shows, such as "aggregator: 12/48 blocks, 3.1 blocks/s, 12 s left".
std::string progress_line(const std::string& stage, const std::string& unit, int64_t done, int64_t total,
                          double seconds);

}  // namespace vggt
