#pragma once
#include <optional>
#include <string>
#include <vector>

#include "io/frames/frames.h"
#include "io/scene/camera.h"

namespace vggt {

/// The known camera of each frame, or nothing. Frames are matched as by match_frames(); cameras whose `valid`
/// is false, those of frames that the source has but that were not taken, and those of other times are passed
/// over. `where` begins messages, such as "align: poses.tum". Throws std::invalid_argument: a camera names a
/// frame that the source does not have, a name or time is there twice, cameras with neither names nor times.
std::vector<std::optional<Camera>> match_cameras(const FrameSet& frames,
                                                 const std::vector<FrameCamera>& known,
                                                 const std::string& where);

}  // namespace vggt
