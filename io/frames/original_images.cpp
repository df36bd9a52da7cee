#include "io/frames/original_images.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "io/files/input_file.h"
#include "io/files/numbers.h"
#include "io/frames/image_files.h"
#include "io/frames/image_header.h"
#include "io/frames/preprocess.h"
#include "io/frames/source_images.h"
#include "io/frames/video.h"

namespace vggt {
namespace {

RgbImage rgb_of(const DecodedImage& image) {
  RgbImage result{image.pixels.cols, image.pixels.rows, {}};
  const std::size_t row = 3 * static_cast<std::size_t>(result.width);
  result.rgb.resize(row * static_cast<std::size_t>(result.height));
  for (int y = 0; y < result.height; ++y) rgb_row(image, y, &result.rgb[row * static_cast<std::size_t>(y)]);
  return result;
}

RgbImage rgb_of(const ImageInMemory& image) {
  RgbImage result{image.width, image.height, {}};
  const std::size_t row = 3 * static_cast<std::size_t>(image.width);
  result.rgb.resize(row * static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) rgb_row(image, y, &result.rgb[row * static_cast<std::size_t>(y)]);
  return result;
}

SourceKind kind_of(const std::filesystem::path& source, const FrameSet& frames) {
  if (!frames.images.empty()) return SourceKind::memory;
  return source.empty() ? SourceKind::list : kind_of_source(source);
}

/// Calls read(); what it throws as std::invalid_argument gets the path in front.
template <class Read>
auto naming(const std::filesystem::path& path, Read&& read) {
  try {
    return read();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path.string() + ": " + error.what());
  }
}

}  // namespace

OriginalImages::OriginalImages(const std::filesystem::path& source, const FrameSet& frames)
    : source_(source), frames_(frames), kind_(kind_of(source, frames)) {}

std::filesystem::path OriginalImages::file(std::size_t frame) const {
  return (kind_ == SourceKind::folder ? source_ : source_.parent_path()) / frames_.frames.at(frame).file;
}

ImageHeader OriginalImages::header(std::size_t frame) const {
  const std::filesystem::path path = file(frame);
  return naming(path, [&] { return read_image_header(FileMapping(InputFile(path)).bytes()); });
}

int64_t OriginalImages::number(std::size_t frame) const {
  if (kind_ == SourceKind::memory) return static_cast<int64_t>(frames_.frames.at(frame).time_s);
  const std::string& name = frames_.frames.at(frame).file;
  const auto number = parse_number<int64_t>(std::string_view(name).substr(name.rfind('#') + 1));
  if (!number) throw std::logic_error(name + ": a frame without a number");
  return *number;
}

RgbImage OriginalImages::read_file(std::size_t frame) const {
  const std::filesystem::path path = file(frame);
  return naming(path, [&] { return rgb_of(ImageFile(path).decode()); });
}

std::size_t OriginalImages::reading_bytes(std::size_t frame) const {
  const Frame& of = frames_.frames.at(frame);
  const std::size_t pixels =
      static_cast<std::size_t>(of.original_width) * static_cast<std::size_t>(of.original_height);
  const std::size_t two = 6 * pixels + pixels / 8;  // PNGs of noise are larger than their pixels
  if (!are_files()) return two + 3 * pixels;        // the decoder keeps a copy of its own
  const std::filesystem::path path = file(frame);
  return naming(path, [&] {
    const ImageFile image(path);
    return std::max({image.decoding_bytes(), image.decoded_bytes() + 3 * pixels, two});
  });
}

void OriginalImages::read_all(const std::function<void(std::size_t frame, RgbImage image)>& take) const {
  if (are_video()) {
    VideoReader video(source_, {1, 1});
    for (std::size_t frame = 0; frame < frames_.frames.size(); ++frame) {
      do {
        if (!video.advance())
          throw std::invalid_argument(source_.string() + ": has fewer frames than when it was read first");
      } while (video.frame_number() < number(frame));
      DecodedImage image{video.pixels()};
      if (image.pixels.empty())
        throw std::invalid_argument(frames_.frames[frame].file + ": cannot be decoded");
      RgbImage rgb = rgb_of(image);
      image.pixels.release();
      take(frame, std::move(rgb));
    }
    return;
  }
  if (kind_ == SourceKind::memory) {
    for (std::size_t frame = 0; frame < frames_.frames.size(); ++frame)
      take(frame, rgb_of(frames_.images[frame]));
    return;
  }
  const auto pixels = static_cast<std::size_t>(frames_.width) * static_cast<std::size_t>(frames_.height);
  for (std::size_t frame = 0; frame < frames_.frames.size(); ++frame) {
    const std::vector<uint8_t> planes = frames_.rgb(frame);  // [3,H,W], which is all there is of them
    RgbImage image{frames_.width, frames_.height, std::vector<uint8_t>(3 * pixels)};
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t c = 0; c < 3; ++c) image.rgb[3 * i + c] = planes[c * pixels + i];
    }
    take(frame, std::move(image));
  }
}

}  // namespace vggt
