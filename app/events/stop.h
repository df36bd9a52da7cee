#pragma once
#include "app/events/events.h"

namespace vggt {

/// From here on the first SIGINT, SIGTERM or SIGHUP only asks to stop; the second one kills. A closed pipe is
/// an error of writing to it.
void catch_stop_signals();
/// Throws Stopped if the program was asked to stop. Long work calls it often.
void check_stop();

}  // namespace vggt
