#pragma once
#include <optional>

#include "app/events/events.h"

namespace vggt {

/// What adjust_scene() takes on this machine.
struct AdjustmentTime {
  double work = 0;  // as adjustment_work() counts it
  double seconds = 0;
};

/// Adjusts six rendered photographs of a corner of a room twice, from cameras and depths as far off as a
/// network's are, and gives the shorter time: for a prediction before any scene was adjusted here. The
/// scene's frames share about as much as those of most. Nothing where memory runs out or the
/// scene is not adjusted. Throws Stopped.
std::optional<AdjustmentTime> time_trial_adjustment(const Events& events);

}  // namespace vggt
