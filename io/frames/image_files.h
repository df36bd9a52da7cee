#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "io/files/input_file.h"
#include "io/frames/image_header.h"
#include "io/frames/preprocess.h"

namespace vggt {

/// Clockwise quarter turns that make an image of this EXIF orientation upright; nothing where it is stored
/// mirrored.
std::optional<int> quarter_turns(int orientation);

/// An image file that is open but not decoded yet.
class ImageFile {
 public:
  /// Opens the file and reads its header. Throws std::invalid_argument (without the path) saying what is
  /// wrong with the file, std::system_error if it cannot be read.
  explicit ImageFile(const std::filesystem::path& path);

  const ImageHeader& header() const { return header_; }
  /// Width and height of the upright image, pixels.
  std::pair<int64_t, int64_t> upright_size() const;
  /// Bytes of the pixels that decode() returns.
  std::size_t decoded_bytes() const;
  /// The most that decode() holds: the file, the pixels, and what the decoder needs beside them or their
  /// transpose where the orientation turns the image by 90°. later: of what comes beside the pixels after it.
  std::size_t decoding_bytes(std::size_t later = 0) const;
  /// The upright image. Throws as the constructor does.
  DecodedImage decode() const;

 private:
  InputFile file_;
  ImageHeader header_;
};

}  // namespace vggt
