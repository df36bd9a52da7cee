#pragma once
#include <vector>

#include "app/options/options.h"
#include "app/run/query_points.h"
#include "app/scene/scene_builder.h"
#include "io/frames/frames.h"
#include "model/vggt.h"

namespace vggt {

FrameOptions frame_options(const Options& options, const Config& config);

/// Hands the frames to the network; `frames` must outlive it.
FrameProvider provide_frames(const FrameSet& frames);

/// Frames [first, first + count) as the network sees them: [count,3,H,W], uint8, or fp32 in [0,1] where they
/// came so.
at::Tensor frame_pixels(const FrameSet& frames, int64_t first, int64_t count);

/// Colours and the part that is not padding, for the scene builder; `frames` must outlive them.
std::vector<FrameView> frame_views(const FrameSet& frames);

/// The cameras for the scene files: network and original pixels.
std::vector<SceneCamera> scene_cameras(const FrameSet& frames, const std::vector<View>& views,
                                       const std::vector<double>& mean_confidence);

}  // namespace vggt
