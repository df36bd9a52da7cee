#pragma once
#include <vector>

#include "app/events/events.h"
#include "app/health/scene_health.h"
#include "app/report/page.h"
#include "app/run/run_plan.h"
#include "app/scene/scene_builder.h"
#include "app/scene/scene_cloud.h"
#include "io/frames/frames.h"

namespace vggt {

/// A scene as health and page look at it. builder, cloud: null where there are none; all must outlive the
/// calls.
struct SceneView {
  const RunPlan& plan;
  const FrameSet& frames;
  const SceneBuilder* builder;
  const SceneCloud* cloud;
  const std::vector<FrameCamera>& cameras;
  const Events& events;
};

/// Assesses the scene, and warns of what it finds. tracks, weak_frames: of the adjusted scene.
SceneHealth health_of(const SceneView& scene, const std::vector<Track>& tracks,
                      const std::vector<int>& weak_frames);

/// What the page shows beside the report.
PageContent page_content(const SceneView& scene);

}  // namespace vggt
