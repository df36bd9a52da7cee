#pragma once
#include "io/frames/frames.h"

namespace vggt {

/// The frames of a .safetensors file's `images` [S,3,H,W] in [0,1] (F64, F32, F16 or BF16).
/// progress as in load_frames(). Throws std::invalid_argument naming the file: no such tensor, another shape
/// or type, H or W no multiple of patch_size, a value outside [0,1]; std::system_error if it cannot be read.
FrameSet load_tensor_frames(const FrameOptions& options,
                            const std::function<void(int done, int total)>& progress);

}  // namespace vggt
