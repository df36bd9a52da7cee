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

/// A camera of a file, and the frame that it belongs to.
struct KnownFrame {
  const FrameCamera* known = nullptr;
  int quarter_turns = 0;      // the frame's, as Frame::quarter_turns
  int width = 0, height = 0;  // of the upright frame, pixels
};

/// The cameras of the upright frames. Those that are of images as stored are turned, unless one of them has
/// the shape of an upright frame that EXIF turns sideways: then the images were copies, made upright. Of
/// frames that are square or turned by 180° alone nothing tells that.
std::vector<Camera> upright_cameras(const std::vector<KnownFrame>& frames);

/// The known camera of each upright frame, or nothing. Frames are matched as by match_frames(); cameras whose
/// `valid` is false, those of frames that the source has but that were not taken, and those of other times
/// are passed over. `where` begins messages, such as "align: poses.tum", theirs_name is what they call the
/// known ones. Throws std::invalid_argument: a camera names a frame that the source does not have, a name or
/// time is there twice, cameras with neither names nor times.
std::vector<std::optional<Camera>> match_cameras(const FrameSet& frames,
                                                 const std::vector<FrameCamera>& known,
                                                 const std::string& where,
                                                 const char* theirs_name = "the poses");

}  // namespace vggt
