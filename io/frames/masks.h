#pragma once
#include <filesystem>
#include <functional>

#include "io/frames/frames.h"

namespace vggt {

/// Reads the masks of a set's frames from a folder: an image for each frame, as large as the upright frame,
/// black (r+g+b < 16) or wholly transparent where the frame is not used. It has the frame's name with any
/// image extension, or with one more: a.png or a.jpg.png for a.jpg, walk.mp4#12.png for frame 12 of walk.mp4.
/// The mask of a/b/c.jpg of a list lies in a/b, in b or in the folder itself. A network pixel is used where
/// it shows no black one. The masks lie in options.space; threads and memory are those of the frames.
/// progress(done, total) may throw to stop. Throws std::invalid_argument: no such folder,
/// a frame without a mask or with two, another size, a file that cannot be decoded, one that is nearly
/// black all over, black ones alone; std::system_error.
ReadMask load_masks(const FrameOptions& options, const FrameSet& frames,
                    const std::function<void(int done, int total)>& progress = {});

/// Throws std::invalid_argument where the folder of masks is the one that the frames lie in: each frame would
/// be its own mask.
void refuse_frames_as_masks(const FrameOptions& options);

/// The most bytes that load_masks() needs to read one of the masks, as their headers tell; 0 without masks.
/// Those that it would not find, or not read, do not count. Throws std::invalid_argument: no such folder.
std::size_t most_mask_bytes(const FrameOptions& options, const FrameSet& frames);

}  // namespace vggt
