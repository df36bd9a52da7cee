#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/frames/pixel_map.h"

namespace vggt {

enum class Fit { crop, pad };

/// Which frames to load, and how. Sizes in network pixels.
struct FrameOptions {
  std::filesystem::path source;  // folder, video, text file listing paths, or .safetensors holding `images`
  Fit fit = Fit::crop;
  int width = 518;  // a multiple of patch_size; crop: the width and the largest height; pad: the longer side
  int patch_size = 14;
  std::optional<double> fps;                    // videos: frames a second, 1 if neither is given
  std::optional<int> stride;                    // videos: every n-th frame
  std::optional<int> max_frames;                // spread evenly from the first to the last, before decoding
  bool strict = false;                          // an unreadable image is an error, not a warning
  int threads = 0;                              // decoding threads; 0: one per core
  std::size_t memory_budget_bytes = 1UL << 30;  // of source images being decoded; one always fits
};

/// One preprocessed frame, of the width and height of its FrameSet.
struct Frame {
  std::string file;   // name in the folder or the list, "name.mp4#frame", "name.safetensors#index"
  double time_s = 0;  // time in the video, else the index in the sequence, skipped frames counted
  int original_width = 0, original_height = 0;  // pixels of the upright source image
  PixelMap map;
  std::vector<uint8_t> rgb;   // planes [3,H,W]
  std::vector<float> pixels;  // planes [3,H,W] in [0,1], only from .safetensors, where rgb is these rounded
};

/// Frames of one size.
struct FrameSet {
  int width = 0, height = 0;          // network pixels, multiples of patch_size
  std::vector<Frame> frames;          // at least one
  std::vector<std::string> warnings;  // of skipped files and of a video that ends early, one line each
};

/// Finds, decodes and preprocesses frames on several threads, whose number changes neither order nor pixels.
/// progress(done, total) is called from the calling thread and may throw to stop; total is 0 where it is not
/// known. With max_frames, a video is gone through twice: first its frames are counted (total is 0), then the
/// chosen ones are loaded. Throws std::invalid_argument: no frames, only unreadable ones, an unreadable one
/// with `strict`, bad options; std::system_error: a folder, list or .safetensors file that cannot be read.
/// Several threads may load at once.
FrameSet load_frames(const FrameOptions& options,
                     const std::function<void(int done, int total)>& progress = {});

}  // namespace vggt
