#pragma once
#include <cstddef>
#include <opencv2/core/mat.hpp>
#include <span>
#include <vector>

namespace vggt {

/// What a HEIF or AVIF file says of its primary image.
struct HeifInfo {
  int width = 0, height = 0;  // after the file's own rotation, mirroring and cropping
  int bits = 8;               // of a colour
  bool alpha = false, premultiplied = false;
  bool is_av1 = false,
       whole_chroma = false;         // an AVIF file; one whose chroma is not halved in both directions
  std::vector<std::byte> exif = {};  // a TIFF directory; empty: there is none
};

/// Whether the file's first bytes name a brand of still HEIF or AVIF images.
bool is_heif(std::span<const std::byte> file);

/// Reads the boxes, and no pixels. Throws std::invalid_argument (without the path) if they are damaged.
HeifInfo read_heif_info(std::span<const std::byte> file);

/// The primary image, upright: BGR, or BGRA where it has alpha, of 8 bits; of deeper images the upper bits.
/// Throws std::invalid_argument (without the path): damaged, or compressed in a way that libheif cannot read.
cv::Mat decode_heif(std::span<const std::byte> file);

}  // namespace vggt
