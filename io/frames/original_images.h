#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "io/frames/frame_sources.h"
#include "io/frames/frames.h"
#include "io/frames/image_header.h"

namespace vggt {

/// An upright image: rgb bytes [H,W,3].
struct RgbImage {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// The images that frames were made of, read once more at their own size. What a member cannot read it throws
/// of as load_frames() warns of it, naming the file: std::invalid_argument, std::system_error.
class OriginalImages {
 public:
  /// The frames of this source, or, where it is empty, of paths or of images in memory. Both outlive the
  /// object.
  OriginalImages(const std::filesystem::path& source, const FrameSet& frames);

  /// Whether each frame is an image file of its own; else they lie in a video, a .safetensors file or memory.
  bool are_files() const {
    return kind_ != SourceKind::video && kind_ != SourceKind::tensor_file && kind_ != SourceKind::memory;
  }
  bool are_video() const { return kind_ == SourceKind::video; }
  /// The image file of a frame.
  std::filesystem::path file(std::size_t frame) const;
  /// The header of the image file of a frame.
  ImageHeader header(std::size_t frame) const;
  /// A frame's number in its video or .safetensors file, or among the images.
  int64_t number(std::size_t frame) const;

  /// The image of a file. May be called from several threads.
  RgbImage read_file(std::size_t frame) const;
  /// Calls take(frame, image) for all frames that are no files, in their order.
  void read_all(const std::function<void(std::size_t frame, RgbImage image)>& take) const;
  /// The most memory that reading a frame takes, and making another image or a file of it, in bytes.
  std::size_t reading_bytes(std::size_t frame) const;

 private:
  std::filesystem::path source_;
  const FrameSet& frames_;
  SourceKind kind_;
};

}  // namespace vggt
