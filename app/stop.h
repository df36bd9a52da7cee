#pragma once
#include <exception>

namespace vggt {

/// Thrown by check_stop() after Ctrl-C or a request to terminate.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

/// From here on the first SIGINT, SIGTERM or SIGHUP only asks to stop; the second one kills. A closed pipe is
/// an error of writing to it.
void catch_stop_signals();
/// Throws Stopped if the program was asked to stop. Long work calls it often.
void check_stop();

}  // namespace vggt
