#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "app/events/events.h"
#include "app/scene/dense_maps.h"
#include "io/files/host_storage.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "model/refine/depth_refiner.h"

namespace vggt {

/// Adjusted frames, for the refinement of their depth.
struct FramesToRefine {
  const FrameSet& frames;
  const std::vector<Camera>& cameras;
  const std::vector<std::pair<int, int>>& pairs;  // of frames that matches link
  std::shared_ptr<HostSpace> space;               // for the maps, until all are refined
};

/// Corrects the depth maps, [H,W] a frame, by what linked frames show. Frames without a camera, and those
/// that no other one tells anything of, keep theirs. Either all maps are written or, where it throws, none.
/// Reports the progress of the stage "refinement" in frames. Throws Stopped, and c10::Error or std::bad_alloc
/// where memory runs out.
void refine_depth(const DepthRefiner& refiner, at::Device device, const FramesToRefine& scene,
                  DenseMaps& depth, const Events& events);

}  // namespace vggt
