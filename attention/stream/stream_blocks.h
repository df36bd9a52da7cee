#pragma once
#include "attention/stream/stream_task.h"

namespace vggt {

/// The blocked schedule, by the guardrail's plan: a block of queries stays on the device with its states, and
/// all keys pass by.
void attend_blocks(StreamTask& task);

}  // namespace vggt
