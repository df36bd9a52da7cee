#pragma once
#include <optional>
#include <string>
#include <vector>

#include "io/frames/frames.h"
#include "io/scene/camera.h"

namespace vggt {

/// Gives a camera what its file left open: a field of view is for whatever width there is, and without a
/// height the principal point is in the middle. width, height: of the image.
void complete(Camera& camera, int width, int height);

/// The camera of the upright image of a frame, by what is known of its file: turned, where the camera is that
/// of the image as stored. A size that only the upright image has says that it was a copy, made upright.
/// quarter_turns, width and height: the frame's, upright.
Camera upright_camera(const FrameCamera& known, int quarter_turns, int width, int height);

/// The known camera of each upright frame, or nothing. Frames are matched as by match_frames(); cameras whose
/// `valid` is false, those of frames that the source has but that were not taken, and those of other times
/// are passed over. `where` begins messages, such as "align: poses.tum". Throws std::invalid_argument: a
/// camera names a frame that the source does not have, a name or time is there twice, cameras with neither
/// names nor times.
std::vector<std::optional<Camera>> match_cameras(const FrameSet& frames,
                                                 const std::vector<FrameCamera>& known,
                                                 const std::string& where);

}  // namespace vggt
