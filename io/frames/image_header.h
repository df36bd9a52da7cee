#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vggt {

enum class ImageFormat { jpeg, png, webp, tiff, bmp, heif };

/// What becomes of a fourth channel. The reference composites images that Pillow opens in mode RGBA, as
/// on_white does; premultiplied_on_white: the colours are already multiplied by the alpha.
enum class Alpha { drop, on_white, premultiplied_on_white };

/// What the header of an image file says.
struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  int64_t width = 0, height = 0;  // as stored, before orientation; of HEIF as its decoder turns it
  int bytes_per_pixel = 3;        // of the decoded image
  double decoder_bytes = 0;       // a pixel, that the decoder holds beside it, about
  int orientation = 1;            // EXIF, 1 to 8; of HEIF 1, as its own rotation counts instead
  Alpha alpha = Alpha::drop;
  std::string camera = {};  // EXIF: maker, model, focal lengths and zoom, as far as they are there
};

/// The header of an image; the format shows in the file's first bytes, whatever its name.
/// Throws std::invalid_argument (without the path) if the bytes are of no known format or the header is
/// damaged.
ImageHeader read_image_header(std::span<const std::byte> file);

}  // namespace vggt
