#pragma once
#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <vector>

#include "io/frames/frames.h"
#include "io/frames/image_header.h"

namespace vggt {

/// A decoded image, upright: 1, 3 (BGR) or 4 (BGRA) channels of 8 or 16 bits, or one of floats or 32-bit
/// integers.
struct DecodedImage {
  cv::Mat pixels;
  Alpha alpha = Alpha::drop;
};

/// One row as Pillow's convert('RGB') makes it: 16 bits lose the low byte with colour and are clipped at 255
/// in grey.
void rgb_row(const DecodedImage& image, int y, uint8_t* rgb);

/// An image at network size.
struct FittedImage {
  int width = 0, height = 0;
  PixelMap map;
  std::vector<uint8_t> rgb;  // planes [3,H,W]
};

/// Resizes, then crops or pads as the reference's loader does (reference: load_and_preprocess_images).
/// Throws std::invalid_argument where a side would round to 0.
FittedImage fit_image(const DecodedImage& image, Fit fit, int width, int patch_size);

/// Centres on white at a larger size.
void pad_to(FittedImage& image, int width, int height);

}  // namespace vggt
