#pragma once
#include <string>
#include <vector>

#include "app/health/frame_links.h"
#include "app/health/scene_health.h"

namespace vggt {

/// What of a scene's health a person should be told, the worst first, each frame once. jumps: as jumps_of().
/// How often planted faults are found, and how often there is a warning without one: tests/BENCHMARKS.md.
std::vector<HealthWarning> health_warnings(const SceneHealth& health, const std::vector<std::string>& files,
                                           const std::vector<FrameLink>& links,
                                           const std::vector<int>& jumps);

}  // namespace vggt
