#pragma once
#include "app/events/console.h"
#include "app/options/options.h"

namespace vggt {

/// The main job: frames in, a scene out, as the options say. Files appear together at the end or not at all.
/// Throws std::invalid_argument (bad options or input), std::system_error (files), Stopped (Ctrl-C) and what
/// LibTorch throws.
void reconstruct(const Options& options, Console& console);

}  // namespace vggt
