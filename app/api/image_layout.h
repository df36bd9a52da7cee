#pragma once
#include <cstddef>

#include "app/api/vggt_recon.h"
#include "io/frames/frames.h"

namespace vggt {

/// The image as a run reads it, with a number for each stride that is given as 0. Throws
/// std::invalid_argument, with the image's number from 0 and the stride's name, where values would overlap.
ImageInMemory image_of(const vggt_recon_image& given, std::size_t number);

}  // namespace vggt
