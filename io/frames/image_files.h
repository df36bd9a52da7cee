#pragma once
#include <cstddef>
#include <filesystem>

#include "io/frames/image_header.h"
#include "io/files/input_file.h"
#include "io/frames/preprocess.h"

namespace vggt {

/// An image file that is open but not decoded yet.
class ImageFile {
 public:
  /// Throws std::invalid_argument or std::system_error saying what is wrong with the file.
  explicit ImageFile(const std::filesystem::path& path);

  /// What decode() holds at its peak: the file, the pixels, and their transpose where the image lies on its
  /// side.
  std::size_t decoding_bytes() const;
  /// The upright image. Throws as the constructor does.
  DecodedImage decode() const;

 private:
  InputFile file_;
  ImageHeader header_;
};

/// Keeps OpenCV and its decoders off stderr, as far as they can be told; call it before anything is decoded.
void quiet_decoders();

}  // namespace vggt
