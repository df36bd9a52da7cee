#pragma once
#include <csignal>

namespace vggt {

/// By this a process stops the ranks that it started: beside a signal that came to all of them it is no
/// second one, which would kill.
inline constexpr int kStopByStarter = SIGUSR1;

/// From here on the first SIGINT, SIGTERM or SIGHUP only asks to stop; the second one kills. One that is
/// ignored stays ignored, as SIGHUP under nohup. A closed pipe is an error of writing to it. For the program
/// alone: a library has no say in signals.
void catch_stop_signals();
/// Whether one of these signals came. Any thread may ask.
bool stop_requested();

}  // namespace vggt
