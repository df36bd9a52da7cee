#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/frames/decoding_budget.h"
#include "io/frames/frame_sources.h"
#include "io/frames/frames.h"
#include "io/frames/image_files.h"
#include "io/frames/preprocess.h"

namespace vggt {

/// The upright size of an image, pixels, what EXIF tells of its camera, and the bytes that it takes to make a
/// frame of it.
struct ImageSize {
  int64_t width = 0, height = 0;
  std::string camera = {};
  std::size_t bytes = 0;
  int quarter_turns = 0;  // as Frame::quarter_turns
};

/// The images that make frames, but videos and .safetensors files: those of a folder, a list, paths or the
/// caller's memory.
class SourceImages {
 public:
  /// `options` must outlive the object. Throws as find_images(), and std::invalid_argument naming an image in
  /// memory that is none.
  SourceImages(const FrameOptions& options, SourceKind kind);

  const std::vector<std::string>& names() const { return list_.names; }
  /// For messages.
  std::string where(std::size_t i) const;
  /// The lease holds what making a frame of it takes of the budget. Throws as ImageFile.
  DecodedImage decode(std::size_t i, DecodingBudget& budget,
                      std::optional<DecodingBudget::Lease>& lease) const;
  /// Of files from the header alone. Throws as ImageFile.
  ImageSize size(std::size_t i) const;

 private:
  ImageSize size_of(const ImageFile& file) const;
  ImageSize size_of(const ImageInMemory& image) const;
  bool in_memory() const { return !options_.images.empty(); }

  const FrameOptions& options_;
  ImageList list_;
};

/// Throws std::invalid_argument, naming the image and beginning with its number from 0, for one without
/// pixels or with sides that are not positive.
void check_images(const std::vector<ImageInMemory>& images);
/// Its name; "image_" and its number where it has none.
std::string name_of(const std::vector<ImageInMemory>& images, std::size_t i);
/// Writes row y as rgb bytes [width,3].
void rgb_row(const ImageInMemory& image, int y, uint8_t* rgb);

}  // namespace vggt
