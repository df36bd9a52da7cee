#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/files/host_storage.h"
#include "io/frames/pixel_map.h"

namespace vggt {

/// How images become frames. crop: they get the network's width; of what is then higher than wide the middle
/// stays. pad: the longer side gets it, and white makes the image square. whole: the longer side gets it, and
/// nothing is cut or added. Frames of several shapes are centred on white of a size that holds all.
enum class Fit { crop, pad, whole };

/// An 8-bit image in the caller's memory: channel c (red, green, blue) of pixel (x, y) is at
/// pixels[y * row_stride + x * pixel_stride + c * channel_stride].
struct ImageInMemory {
  const uint8_t* pixels = nullptr;
  int width = 0, height = 0;
  std::ptrdiff_t row_stride = 0, pixel_stride = 3, channel_stride = 1;  // bytes
  std::string name = {};                                                // empty: image_ and its number
};

/// Which frames to load, and how. Sizes in network pixels.
struct FrameOptions {
  std::filesystem::path source;    // folder, video, text file listing paths, or .safetensors holding `images`
  std::vector<std::string> paths;  // or image files, where `source` is empty
  std::vector<ImageInMemory> images;  // or images, which stay as long as the frames are used
  Fit fit = Fit::crop;
  int width = 518;  // a multiple of patch_size; crop: the width and the largest height; else the longer side
  int patch_size = 14;
  std::optional<double> fps;                    // videos: frames a second, 1 if neither is given
  std::optional<int> stride;                    // videos: every n-th frame
  std::optional<int> max_frames;                // spread evenly from the first to the last, before decoding
  std::filesystem::path masks;                  // a folder, see masks.h; empty: every pixel is used
  bool strict = false;                          // an unreadable image is an error, not a warning
  int threads = 0;                              // decoding threads; 0: one per core
  std::size_t memory_budget_bytes = 1UL << 30;  // of source images that become frames; one always fits
  /// Longer side, in pixels, to which gray copies of the upright originals are reduced and kept; 0: none are.
  int gray_side = 0;
  std::size_t gray_bytes = 1UL << 30;  // that all gray copies may take: where they are many they are smaller
  bool pixels = true;                  // false: sizes alone, as the headers of images tell them
  bool first_frame = false;            // with sizes alone: a video's size stands for all its frames
  std::shared_ptr<HostSpace> space;    // for the frames' pixels; none: they are held in memory
};

/// One preprocessed frame, of the width and height of its FrameSet.
struct Frame {
  std::string file;   // name in the folder or the list, "name.mp4#frame", "name.safetensors#index"
  double time_s = 0;  // time in the video, else the index in the sequence, skipped frames counted
  int original_width = 0, original_height = 0;  // pixels of the upright source image
  PixelMap map;
  /// Clockwise, from the image as its file stores it to the upright one; 0 too for mirrored images.
  int quarter_turns = 0;
  std::string camera;  // maker, model and focal length as EXIF tells them; empty: it does not
  int gray_width = 0, gray_height = 0;  // pixels of the gray copy; 0: there is none
  bool is_clipped = false;              // its image is grey with values above 255, which are white here
  std::size_t source_bytes = 0;         // that it takes to make it of its image; of videos with sizes alone
};

/// Reads the colours of a frame: planes [3,H,W]. May be called from several threads. Throws std::system_error
/// if they cannot be read.
using ReadRgb = std::function<void(std::size_t frame, std::span<uint8_t> rgb)>;

/// Reads which pixels of a frame are used, [H,W]: 1, or 0 where its mask is black and where the frame is
/// padded. As ReadRgb.
using ReadMask = std::function<void(std::size_t frame, std::span<uint8_t> used)>;

/// What an image of this size takes beside its pixels while it becomes a frame, in bytes: its rows at the
/// network's width, and its gray copy.
std::size_t bytes_beside_pixels(const FrameOptions& options, int64_t width, int64_t height);

/// Frames of one size. Their pixels lie in memory, in a scratch folder, or in their .safetensors file.
struct FrameSet {
  int width = 0, height = 0;           // network pixels, multiples of patch_size
  std::vector<Frame> frames;           // at least one
  std::vector<std::string> warnings;   // of skipped files and of a video that ends early, one line each
  std::vector<std::string> notes;      // of frames that may not look as they should, one line each
  ReadRgb read_rgb;                    // empty without FrameOptions::pixels
  ReadMask read_mask;                  // empty: there are no masks
  std::vector<std::string> not_taken;  // frames that the folder or list has beside these
  std::vector<ImageInMemory> images;   // what the frames were made of, where that was in memory; else empty
  /// Reads a frame as planes [3,H,W] of floats in [0,1]. Only from .safetensors, where rgb is these rounded;
  /// else empty. Throws as read_rgb.
  std::function<void(std::size_t frame, std::span<float> values)> read_exact;
  /// Reads the gray copy of the upright original, [gray_height,gray_width]. Empty where none are kept. Throws
  /// as read_rgb.
  std::function<void(std::size_t frame, std::span<uint8_t> gray)> read_gray;

  std::size_t frame_values() const {
    return 3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  }
  /// The colours of a frame: planes [3,H,W].
  std::vector<uint8_t> rgb(std::size_t frame) const {
    std::vector<uint8_t> rgb(frame_values());
    read_rgb(frame, rgb);
    return rgb;
  }
};

/// Finds, decodes and preprocesses frames on several threads, whose number changes neither order nor pixels.
/// progress(done, total) is called from the calling thread and may throw to stop; total is 0 where it is not
/// known. With max_frames, a video is gone through twice: first its frames are counted (total is 0), then the
/// chosen ones are loaded. Throws std::invalid_argument: no frames, only unreadable ones, an unreadable one
/// with `strict`, bad options; std::system_error: a folder, list or .safetensors file that cannot be read.
/// Several threads may load at once.
FrameSet load_frames(const FrameOptions& options,
                     const std::function<void(int done, int total)>& progress = {});

/// Of a video, as the header of its container tells before anything is opened that decodes: its first frame,
/// as load_frames() gives it without pixels, and promised_frames().
struct HeaderFrames {
  FrameSet first;
  std::size_t promised = 0;
  bool has_format = false;  // whether the header tells the format of stored pixels
};

/// Nothing of other sources, where the header does not tell, and for sizes and options that cannot be, of
/// which loading says why.
std::optional<HeaderFrames> frames_of_header(const FrameOptions& options);

/// How many frames a video will have by what its container promises, max_frames at most; 0 where it promises
/// nothing or cannot be opened.
std::size_t promised_frames(const FrameOptions& options);

}  // namespace vggt
