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

struct FrameOptions {
  std::filesystem::path source;  // folder, video, text file listing paths, or .safetensors holding `images`
  Fit fit = Fit::crop;
  int width = 518;  // multiple of patch_size; crop: the width and the cap on the height; pad: the long side
  int patch_size = 14;
  std::optional<double> fps;                    // videos; default 1 frame a second
  std::optional<int> stride;                    // videos: every n-th frame
  std::optional<int> max_frames;                // spread evenly from the first to the last, before decoding
  bool strict = false;                          // an unreadable image is an error instead of a warning
  int threads = 0;                              // decoding threads; 0: one per core
  std::size_t memory_budget_bytes = 1UL << 30;  // of source images in flight; one is always allowed
};

/// One preprocessed frame: width × height of its FrameSet.
struct Frame {
  std::string file;   // below the folder, as the list spells it, "name.mp4#frame", "name.safetensors#index"
  double time_s = 0;  // seconds of the video, else the index in the whole sequence, skipped ones counted
  int original_width = 0, original_height = 0;
  PixelMap map;
  std::vector<uint8_t> rgb;   // planes [3,H,W]
  std::vector<float> pixels;  // planes [3,H,W] in [0,1], only from .safetensors (rgb is then their rounding)
};

struct FrameSet {
  int width = 0, height = 0;          // network pixels, multiples of patch_size
  std::vector<Frame> frames;          // at least one
  std::vector<std::string> warnings;  // skipped files and the missing part of a video, one line each
};

/// Finds, decodes and preprocesses frames, on several threads within the memory budget.
/// Their order and pixels do not depend on the threads. progress(done, total) is called from the calling
/// thread and may throw to stop; total is 0 where it is not known (yet: videos are counted first for
/// max_frames, and then begun again).
/// Throws std::invalid_argument: no frames, only unreadable ones, an unreadable one with `strict`, bad
/// options; std::system_error: a folder, list or .safetensors file that cannot be opened.
FrameSet load_frames(const FrameOptions& options,
                     const std::function<void(int done, int total)>& progress = {});

}  // namespace vggt
