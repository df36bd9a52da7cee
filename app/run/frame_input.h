#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "app/adjust/match_input.h"
#include "app/scene/scene_builder.h"
#include "io/files/host_storage.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "model/frame_provider.h"

namespace vggt {

/// Hands the frames to the network; `frames` must outlive it.
FrameProvider provide_frames(const FrameSet& frames);

/// Frames [first, first + count) as the network sees them: [count,3,H,W], uint8, or fp32 in [0,1] where they
/// came so.
at::Tensor frame_pixels(const FrameSet& frames, int64_t first, int64_t count);

/// The part of each frame that is not padding.
std::vector<FrameView> frame_views(const FrameSet& frames);

/// The frames for the adjustment, which works in `space`; they must outlive it.
MatchInput match_input(const FrameSet& frames, const std::shared_ptr<HostSpace>& space);

/// Tells each camera how its frame's pixels map to those of the upright original.
void map_to_originals(const FrameSet& frames, std::vector<Camera>& cameras);

/// The cameras with their frames' names and times. mean_confidence: of each frame, or empty.
std::vector<FrameCamera> frame_cameras(const FrameSet& frames, const std::vector<Camera>& cameras,
                                       const std::vector<double>& mean_confidence);

}  // namespace vggt
