#include "app/cli/console.h"

#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "app/cli/stop.h"
#include "io/files/text.h"

namespace vggt {
namespace {

constexpr double kTerminalInterval_s = 0.1, kPlainInterval_s = 5;

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

bool reader_is_gone() {
  struct pollfd out = {STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

std::string short_time(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60);
  if (minutes < 60)
    return fmt::format("{} min {:02.0f} s", minutes, seconds - 60.0 * static_cast<double>(minutes));
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string progress_line(const std::string& stage, const std::string& unit, int64_t done, int64_t total,
                          double seconds) {
  const std::string count = total > 0 ? fmt::format("{}/{}", done, total) : fmt::format("{}", done);
  std::string line = fmt::format("{}: {} {}", stage, count, unit);
  if (done > 0 && seconds > 0.5) {
    const double rate = static_cast<double>(done) / seconds;
    line += fmt::format(", {:.3g} {}/s", rate, unit);
    if (done < total) line += ", " + short_time(static_cast<double>(total - done) / rate) + " left";
  }
  return line;
}

Console::Console(Verbosity verbosity)
    : logger_(
          std::make_shared<spdlog::logger>("vggt-recon", std::make_shared<spdlog::sinks::stderr_sink_st>())),
      verbosity_(verbosity),
      is_terminal_(isatty(STDERR_FILENO) == 1) {
  logger_->set_pattern("%v");
  logger_->set_level(verbosity == Verbosity::quiet     ? spdlog::level::warn
                     : verbosity == Verbosity::verbose ? spdlog::level::debug
                                                       : spdlog::level::info);
  logger_->flush_on(spdlog::level::debug);
}

void Console::detail(const std::string& text) {
  clear_line();
  logger_->debug(one_line(text));
}

void Console::info(const std::string& text) {
  clear_line();
  logger_->info(one_line(text));
}

void Console::warn(const std::string& text) {
  clear_line();
  logger_->warn("vggt-recon: warning: " + one_line(text));
}

void Console::error(const std::string& text) {
  clear_line();
  logger_->error("vggt-recon: error: " + one_line(text));
}

void Console::result(const std::string& text) {
  clear_line();
  if (verbosity_ == Verbosity::quiet) return;
  errno = 0;
  if (std::fputs((one_line(text) + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return;
  output_error_ = errno != 0 ? errno : EIO;
}

bool Console::output_is_lost() const {
  return output_error_ != 0 || reader_is_gone();
}

void Console::check_output() const {
  check_written();
  if (reader_is_gone())
    throw std::system_error(EPIPE, std::generic_category(), "cannot write standard output");
}

void Console::check_written() const {
  if (const int error = output_error_)
    throw std::system_error(error, std::generic_category(), "cannot write standard output");
}

Events Console::events() {
  Events events;
  events.on_progress = [this](const std::string& stage, const std::string& unit, int64_t done,
                              int64_t total) { progress(stage, unit, done, total); };
  events.on_message = [this](Message kind, const std::string& text) {
    if (kind == Message::warning) return warn(text);
    kind == Message::info ? info(text) : detail(text);
  };
  events.stop = stop_requested;
  return events;
}

void Console::clear_line() {
  if (line_shown_) std::fputs("\r\033[K", stderr);
  line_shown_ = false;
}

void Console::progress(const std::string& stage, const std::string& unit, int64_t done, int64_t total) {
  if (verbosity_ == Verbosity::quiet) return;
  const Clock::time_point now = Clock::now();
  if (stage != stage_ || total != total_ || done == 0) {
    stage_ = stage;
    total_ = total;
    stage_start_ = now;
    last_shown_ = now;
  }
  const bool is_over = total > 0 && done >= total;
  if (is_over) {
    clear_line();
    stage_.clear();
    return;
  }
  if (seconds_between(last_shown_, now) < (is_terminal_ ? kTerminalInterval_s : kPlainInterval_s)) return;
  last_shown_ = now;
  const std::string line =
      one_line(progress_line(stage, unit, done, total, seconds_between(stage_start_, now)));
  if (is_terminal_) {
    std::fputs(("\r" + line + "\033[K").c_str(), stderr);
    std::fflush(stderr);
    line_shown_ = true;
  } else {
    logger_->info(line);
  }
}

}  // namespace vggt
