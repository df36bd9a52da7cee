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

/// How many frames of so many pixels are refined at once on a CPU, and what that takes in bytes, where there
/// is room for so many, or for one.
struct RefinedAtOnce {
  RefinedAtOnce(int64_t pixels, int64_t all, int64_t threads, int64_t room);

  int64_t frames, kept;  // kept: of which what the refiner saw is kept
  int64_t bytes;
};

/// Corrects the depth maps, [H,W] a frame, by what linked frames show. Frames without a camera, and those
/// that no other one tells anything of, keep theirs. Either all maps are written or, where it throws, none.
/// Reports the progress of the stage "refinement" in frames. Throws Stopped, and c10::Error or std::bad_alloc
/// where memory runs out. room: bytes that it may take.
void refine_depth(const DepthRefiner& refiner, at::Device device, const FramesToRefine& scene,
                  DenseMaps& depth, int64_t room, const Events& events);

}  // namespace vggt
