// What holds for every image header that is read without an error.
#pragma once
#include <cstdlib>
#include <span>

#include "io/frames/image_header.h"

namespace vggt {

inline void check_image_header(std::span<const std::byte> bytes) {
  const ImageHeader header = read_image_header(bytes);
  const bool good = header.width >= 1 && header.height >= 1 && header.orientation >= 1 &&
                    header.orientation <= 8 && header.bytes_per_pixel >= 1 && header.bytes_per_pixel <= 64 &&
                    header.decoder_bytes >= 0 && header.decoder_bytes <= 64 && header.camera.size() <= 3 * 64;
  if (!good) std::abort();
}

}  // namespace vggt
