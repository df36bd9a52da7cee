#include "io/frames/image_files.h"

#include <algorithm>
#include <climits>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <vector>

#include "io/files/memory_room.h"
#include "io/frames/heif_image.h"
#include "io/frames/image_damage.h"

namespace vggt {
namespace {

constexpr bool transposed(int orientation) {
  return orientation >= 5;
}

// EXIF orientations: 2 mirrored, 3 turned by 180°, 4 flipped, 5 transposed, 6 to be turned clockwise,
// 7 transversed, 8 to be turned counterclockwise.
void make_upright(cv::Mat& pixels, int orientation) {
  if (transposed(orientation)) {
    cv::Mat turned;
    cv::transpose(pixels, turned);
    pixels = turned;
  }
  const bool mirror = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool flip = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirror || flip) cv::flip(pixels, pixels, mirror && flip ? -1 : mirror ? 1 : 0);
}

cv::Mat decode_pixels(ImageFormat format, std::vector<std::byte>& bytes) try {
  if (format == ImageFormat::heif) return decode_heif(bytes);
  const cv::Mat row(1, static_cast<int>(bytes.size()), CV_8UC1, bytes.data());
  return cv::imdecode(row, cv::IMREAD_UNCHANGED);
} catch (const cv::Exception&) {
  throw std::invalid_argument("cannot be decoded: it is damaged, or larger than OpenCV allows");
} catch (const std::bad_alloc&) {
  throw std::invalid_argument("needs more memory than there is");
}

}  // namespace

std::optional<int> quarter_turns(int orientation) {
  switch (orientation) {
    case 1:
      return 0;
    case 6:
      return 1;
    case 3:
      return 2;
    case 8:
      return 3;
    default:
      return std::nullopt;
  }
}

ImageFile::ImageFile(const std::filesystem::path& path)
    : file_(path), header_(read_image_header(FileMapping(file_).bytes())) {}

std::pair<int64_t, int64_t> ImageFile::upright_size() const {
  if (transposed(header_.orientation)) return {header_.height, header_.width};
  return {header_.width, header_.height};
}

std::size_t ImageFile::decoded_bytes() const {
  return static_cast<std::size_t>(header_.width) * static_cast<std::size_t>(header_.height) *
         static_cast<std::size_t>(header_.bytes_per_pixel);
}

std::size_t ImageFile::decoding_bytes(std::size_t later) const {
  const std::size_t pixels = decoded_bytes();
  constexpr double kMost = 1e18;  // of sizes that no decoder takes
  const auto decoder =
      static_cast<std::size_t>(std::min(kMost, header_.decoder_bytes * static_cast<double>(header_.width) *
                                                   static_cast<double>(header_.height)));
  const std::size_t transpose = transposed(header_.orientation) ? pixels : 0;
  return pixels + std::max(file_.size() + std::max(decoder, transpose), later);
}

DecodedImage ImageFile::decode() const {
  if (file_.size() > INT_MAX) throw std::invalid_argument("is larger than 2 GB");
  std::vector<std::byte> bytes(file_.size());
  file_.read(0, bytes);
  if (const auto damage = find_damage(header_, bytes)) throw std::invalid_argument(*damage);
  DecodedImage image;
  image.alpha = header_.alpha;
  image.camera = header_.camera;
  image.quarter_turns = quarter_turns(header_.orientation).value_or(0);
  const auto decode_whole = [&] {
    image.pixels = decode_pixels(header_.format, bytes);
    if (image.pixels.empty()) throw std::invalid_argument("cannot be decoded");
  };
  try {
    decode_whole();
  } catch (const std::invalid_argument&) {
    // It may be whole, but had no memory, which others may have given back since.
    if (!has_room_for(decoding_bytes())) throw std::bad_alloc();
    decode_whole();
  }
  // OpenCV turns TIFF images by itself, whatever it is asked for.
  if (header_.format != ImageFormat::tiff) make_upright(image.pixels, header_.orientation);
  return image;
}

}  // namespace vggt
