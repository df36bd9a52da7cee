#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace vggt {

/// Thrown by Events::check_stop() when the run was asked to stop.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

enum class Message { detail, info, warning };

/// What a run tells to whoever started it, and how it is asked to stop. Each run has its own; members that
/// are empty say nothing. `stop` may be called from any thread, the others are called from the run's own
/// thread. What they throw passes through and ends the run.
struct Events {
  /// `done` of `total` (0: not known) `unit`s of a stage.
  std::function<void(const std::string& stage, const std::string& unit, int64_t done, int64_t total)>
      on_progress;
  std::function<void(Message kind, const std::string& text)> on_message;
  std::function<bool()> stop;  // whether the run shall stop

  /// Throws Stopped if the run shall stop. Long work calls it often.
  void check_stop() const {
    if (stop && stop()) throw Stopped();
  }
  void progress(const std::string& stage, const std::string& unit, int64_t done, int64_t total) const {
    if (on_progress) on_progress(stage, unit, done, total);
  }
  void detail(const std::string& text) const { say(Message::detail, text); }
  void info(const std::string& text) const { say(Message::info, text); }
  void warn(const std::string& text) const { say(Message::warning, text); }

 private:
  void say(Message kind, const std::string& text) const {
    if (on_message) on_message(kind, text);
  }
};

}  // namespace vggt
