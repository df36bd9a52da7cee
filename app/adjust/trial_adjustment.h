#pragma once
#include "app/events/events.h"

namespace vggt {

/// What adjust_scene() takes on this machine.
struct AdjustmentTime {
  double work = 0;  // as adjustment_work() counts it
  double seconds = 0;
  bool changed = false;  // as of an AdjustedScene
};

/// Adjusts six rendered photographs of a corner of a room, from cameras as far off as a network's are: a
/// scene whose frames share about as much as those of most. For a prediction before any scene was adjusted
/// here. Throws Stopped.
AdjustmentTime time_trial_adjustment(const Events& events);

}  // namespace vggt
