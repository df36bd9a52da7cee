#include "io/frames/source_images.h"

#include <cstdio>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <utility>

namespace vggt {
namespace {

ImageList images_of(const FrameOptions& options, SourceKind kind) {
  ImageList list;
  for (std::size_t i = 0; i < options.images.size(); ++i) list.names.push_back(name_of(options.images, i));
  if (!options.paths.empty()) list.names = options.paths;
  return list.names.empty() ? find_images(options.source, kind) : list;
}

/// A copy as OpenCV's readers of files give it.
DecodedImage bgr_copy(const ImageInMemory& image) {
  DecodedImage copy{cv::Mat(image.height, image.width, CV_8UC3)};
  for (int y = 0; y < image.height; ++y) {
    auto* const bgr = copy.pixels.ptr<uint8_t>(y);
    rgb_row(image, y, bgr);
    for (int x = 0; x < image.width; ++x) std::swap(bgr[3 * x], bgr[3 * x + 2]);
  }
  return copy;
}

}  // namespace

SourceImages::SourceImages(const FrameOptions& options, SourceKind kind)
    : options_(options), list_(images_of(options, kind)) {
  check_images(options.images);
}

std::string SourceImages::where(std::size_t i) const {
  return in_memory() ? list_.names[i] : list_.where(i);
}

DecodedImage SourceImages::decode(std::size_t i, DecodingBudget& budget,
                                  std::optional<DecodingBudget::Lease>& lease) const {
  if (in_memory()) {
    const ImageInMemory& image = options_.images[i];
    const std::size_t bytes = size_of(image).bytes;
    lease.emplace(budget, bytes);
    DecodedImage copy = bgr_copy(image);
    copy.source_bytes = bytes;
    return copy;
  }
  const ImageFile file(list_.path(i));
  const std::size_t bytes = size_of(file).bytes;
  lease.emplace(budget, bytes);
  DecodedImage image = file.decode();
  image.source_bytes = bytes;
  return image;
}

ImageSize SourceImages::size(std::size_t i) const {
  if (in_memory()) return size_of(options_.images[i]);
  return size_of(ImageFile(list_.path(i)));
}

ImageSize SourceImages::size_of(const ImageFile& file) const {
  const auto [width, height] = file.upright_size();
  return {width, height, file.header().camera,
          file.decoding_bytes(bytes_beside_pixels(options_, width, height)),
          quarter_turns(file.header().orientation).value_or(0)};
}

ImageSize SourceImages::size_of(const ImageInMemory& image) const {
  const std::size_t pixels = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  return {
      image.width, image.height, {}, 3 * pixels + bytes_beside_pixels(options_, image.width, image.height)};
}

void check_images(const std::vector<ImageInMemory>& images) {
  constexpr int64_t kMostPixels = int64_t{1} << 30;  // as OpenCV's readers
  for (std::size_t i = 0; i < images.size(); ++i) {
    const ImageInMemory& image = images[i];
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument("image " + std::to_string(i) + " (" + name_of(images, i) + "): " + what);
    };
    if (!image.pixels) fail("has no pixels");
    const std::string size = std::to_string(image.width) + "x" + std::to_string(image.height);
    if (image.width < 1 || image.height < 1) fail("its size must be positive, not " + size);
    if (int64_t{image.width} * image.height > kMostPixels) fail("its size is too large: " + size);
  }
}

std::string name_of(const std::vector<ImageInMemory>& images, std::size_t i) {
  if (!images[i].name.empty()) return images[i].name;
  char name[32];
  std::snprintf(name, sizeof name, "image_%06zu", i);
  return name;
}

void rgb_row(const ImageInMemory& image, int y, uint8_t* rgb) {
  const uint8_t* pixel = image.pixels + y * image.row_stride;
  for (int x = 0; x < image.width; ++x, pixel += image.pixel_stride) {
    for (int c = 0; c < 3; ++c) *rgb++ = pixel[c * image.channel_stride];
  }
}

}  // namespace vggt
