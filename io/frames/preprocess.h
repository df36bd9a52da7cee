#pragma once
#include <cstddef>
#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <string>
#include <vector>

#include "io/frames/frames.h"
#include "io/frames/image_header.h"

namespace vggt {

/// A decoded image, upright: 1, 3 (BGR) or 4 (BGRA) channels of 8 or 16 bits, or one channel of floats or of
/// 32-bit integers.
struct DecodedImage {
  cv::Mat pixels;
  Alpha alpha = Alpha::drop;
  std::string camera = {};       // as Frame::camera
  int quarter_turns = 0;         // as Frame::quarter_turns: those that were made
  std::size_t source_bytes = 0;  // as Frame::source_bytes
};

/// Writes row y as Pillow's convert('RGB') makes it, [width,3]. Values of 16 bits lose their low byte in
/// colour images, and are clipped at 255 in grey ones. Throws std::invalid_argument for another type of
/// pixels.
void rgb_row(const DecodedImage& image, int y, uint8_t* rgb);

/// Whether it is a grey image with values above 255, which become white.
bool is_clipped(const DecodedImage& image);

/// An image that was resized and cropped or padded.
struct FittedImage {
  int width = 0, height = 0;
  PixelMap map;
  std::vector<uint8_t> rgb;  // planes [3,H,W]
};

/// Size and map of what fit_image() makes of an image of this size, without its colours. Throws as it does.
FittedImage fit_size(int width, int height, Fit fit, int network_width, int patch_size);

/// Resizes the image, then crops or pads it (source: VGGT's load_and_preprocess_images).
/// Throws std::invalid_argument if a side would round to 0.
FittedImage fit_image(const DecodedImage& image, Fit fit, int width, int patch_size);

/// A gray image [height,width].
struct GrayImage {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

/// The image in gray, reduced by means over areas until its longer side has at most `side` pixels and all of
/// it at most `pixels`. Throws as rgb_row.
GrayImage gray_copy(const DecodedImage& image, int side, std::size_t pixels);

/// Centres an image, planes [3,height,width], on white: planes [3,padded_height,padded_width], a size that is
/// no smaller.
struct Padding {
  int width = 0, height = 0, padded_width = 0, padded_height = 0;
  int left() const { return (padded_width - width) / 2; }
  int top() const { return (padded_height - height) / 2; }
  void fill(const uint8_t* planes, uint8_t* padded) const;
};

}  // namespace vggt
