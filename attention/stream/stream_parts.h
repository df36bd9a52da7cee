#pragma once
#include "attention/stream/stream_task.h"

namespace vggt {

/// Stream-CQSA, by the guardrail's plan: the parts of a quorum division, one after the other, with their
/// states merged on the host.
void attend_parts(StreamTask& task);

}  // namespace vggt
