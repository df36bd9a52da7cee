#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vggt {

enum class ImageFormat { jpeg, png, webp, tiff, bmp };

/// What becomes of a fourth channel. The reference composites images that Pillow opens in mode RGBA.
enum class Alpha { drop, on_white, premultiplied_on_white };

/// What must be known of an image before it is decoded.
struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  int64_t width = 0, height = 0;  // as stored, before orientation
  int bytes_per_pixel = 3;        // decoded
  int orientation = 1;            // EXIF, 1 to 8
  Alpha alpha = Alpha::drop;
};

/// Reads a header by the file's first bytes, whatever its name.
/// Throws std::invalid_argument (without the path) if there is none that can be read.
ImageHeader read_image_header(std::span<const std::byte> file);

/// What a decoder would make up for or report to stderr: an end that is missing, a checksum that is wrong.
/// `file`: that the header was read from. Returns a reason, or nothing where all is well.
std::optional<const char*> find_damage(const ImageHeader& header, std::span<const std::byte> file);

}  // namespace vggt
