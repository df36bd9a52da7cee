#pragma once
#include <memory>
#include <new>
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
  const std::vector<int>& weak;                   // whose cameras may be wrong: they tell nothing of others
  const std::vector<std::size_t>& first;          // of each frame the one that it shows: see AdjustedScene
  std::shared_ptr<HostSpace> space;               // for the maps, until all are refined
};

/// What a refinement throws that has no room for one frame.
struct NoRoomToRefine : std::bad_alloc {
  const char* what() const noexcept override {
    return "the refinement of depth takes more than --host-memory leaves";
  }
};

/// How many frames of so many pixels are refined at once, and what that takes in bytes: none, and
/// nothing, where there is no room for one.
struct RefinedAtOnce {
  RefinedAtOnce() = default;
  RefinedAtOnce(int64_t pixels, int64_t all, int64_t threads, int64_t room);

  int64_t frames = 0, kept = 0;  // kept: of which what the refiner saw is kept
  int64_t bytes = 0, least = 0;  // least: of one at once
};

/// Corrects the depth maps, [H,W] a frame, by what linked frames show. Frames without a camera, and those
/// that no other one tells anything of, keep theirs; copies get that of the frame they show. Where it throws
/// before all frames are refined, no map has changed. Reports the progress of the stage "refinement" in
/// frames. Throws Stopped, NoRoomToRefine, and c10::Error or std::bad_alloc where memory runs out. room:
/// bytes that it may take. lean: with one frame in memory at once.
void refine_depth(const DepthRefiner& refiner, const FramesToRefine& scene, DenseMaps& depth, int64_t room,
                  bool lean, const Events& events);

}  // namespace vggt
