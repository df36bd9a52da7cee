#pragma once

namespace vggt {

/// From here on the first SIGINT, SIGTERM or SIGHUP only asks to stop; the second one kills. A closed pipe is
/// an error of writing to it. For the program alone: a library has no say in signals.
void catch_stop_signals();
/// Whether one of these signals came. Any thread may ask.
bool stop_requested();

}  // namespace vggt
