#include "io/frames/frames.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string_view>

#include "io/files/memory_room.h"
#include "io/frames/frame_sources.h"
#include "io/frames/frame_workers.h"
#include "io/frames/masks.h"
#include "io/frames/source_images.h"
#include "io/frames/tensor_frames.h"
#include "io/frames/video.h"

namespace vggt {
namespace {

using Progress = std::function<void(int done, int total)>;

void require(bool good, const std::string& what) {
  if (!good) throw std::invalid_argument(what);
}

void check_options(const FrameOptions& options, SourceKind kind) {
  require(options.patch_size > 0, "patch size: must be positive, not " + std::to_string(options.patch_size));
  require(options.width > 0 && options.width % options.patch_size == 0,
          "width: must be a positive multiple of " + std::to_string(options.patch_size) + ", not " +
              std::to_string(options.width));
  require(!options.max_frames || *options.max_frames >= 1,
          "max-frames: must be at least 1, not " + std::to_string(options.max_frames.value_or(0)));
  require(!options.stride || *options.stride >= 1,
          "stride: must be at least 1, not " + std::to_string(options.stride.value_or(0)));
  require(!options.fps || (std::isfinite(*options.fps) && *options.fps > 0),
          "fps: must be positive, not " + std::to_string(options.fps.value_or(0)));
  require(options.threads >= 0, "threads: must not be negative, but is " + std::to_string(options.threads));
  require(!options.fps || !options.stride, "fps and stride: give one of them, not both");
  require((!options.fps && !options.stride) || kind == SourceKind::video,
          std::string(options.fps ? "fps" : "stride") + ": " +
              (options.source.empty() ? "what was given" : options.source.string()) + " is not a video");
}

/// Where the pixels of the frames go, and their gray copies, if they are wanted.
struct Pixels {
  std::shared_ptr<PieceStore> rgb, gray;

  /// For so many frames; 0: it is not known how many.
  GrayStore gray_store(const FrameOptions& options, std::size_t frames) const {
    return {gray.get(), std::max<std::size_t>(1, options.gray_bytes / std::max<std::size_t>(1, frames))};
  }
};

std::vector<FrameResult> load_images(const FrameOptions& options, SourceKind kind, const Pixels& pixels,
                                     const Progress& progress, std::vector<std::string>& names) {
  const SourceImages images(options, kind);
  names = images.names();
  const std::vector<std::size_t> chosen = choose_evenly(names.size(), options.max_frames);
  DecodingBudget budget(options.memory_budget_bytes);
  std::size_t position = 0;
  const NextTask next = [&]() -> std::optional<FrameTask> {
    if (position == chosen.size()) return std::nullopt;
    const std::size_t index = chosen[position++];
    const auto decode = [&, index](std::optional<DecodingBudget::Lease>& lease) {
      return images.decode(index, budget, lease);
    };
    return FrameTask{images.names()[index], static_cast<double>(index), images.where(index), decode};
  };
  return run_frame_tasks(
      options, next, *pixels.rgb,
      [&](int done) {
        if (progress) progress(done, static_cast<int>(chosen.size()));
      },
      pixels.gray_store(options, chosen.size()));
}

VideoSampling sampling_of(const FrameOptions& options) {
  return {options.fps.value_or(1), options.stride};
}

// The wanted frames, counted by going through the video: the container's own count cannot be trusted.
std::vector<std::size_t> choose_video_frames(const FrameOptions& options, const Progress& progress,
                                             std::string& defect) {
  VideoReader video(options.source, sampling_of(options));
  std::size_t count = 0;
  while (video.advance()) {
    ++count;
    if (progress) progress(static_cast<int>(count), 0);
  }
  defect = video.defect();
  return choose_evenly(count, options.max_frames);
}

// Makes tasks of the chosen frames of a video, or of all wanted ones; each holds its share of the budget.
class VideoTasks {
 public:
  VideoTasks(const FrameOptions& options, std::optional<std::vector<std::size_t>> chosen)
      : options_(options),
        name_(options.source.filename().string()),
        video_(options.source, sampling_of(options)),
        chosen_(std::move(chosen)),
        budget_(options.memory_budget_bytes - std::min(options.memory_budget_bytes, video_.decoder_bytes())) {
  }

  std::optional<FrameTask> next() {
    if (chosen_ && taken_ == chosen_->size()) return std::nullopt;
    do {
      if (!video_.advance()) return std::nullopt;
    } while (chosen_ && wanted_++ != (*chosen_)[taken_]);
    ++taken_;
    const std::size_t bytes = video_.frame_bytes() + beside_;
    const auto lease = std::make_shared<DecodingBudget::Lease>(budget_, bytes);
    const DecodedImage image{video_.pixels()};
    beside_ = bytes_beside_pixels(options_, image.pixels.cols, image.pixels.rows);
    const std::string file = name_ + "#" + std::to_string(video_.frame_number());
    const auto decode = [lease, image](std::optional<DecodingBudget::Lease>&) {
      if (image.pixels.empty() && !has_room_for(0)) throw std::bad_alloc();
      if (image.pixels.empty()) throw std::invalid_argument("cannot be decoded");
      return image;
    };
    return FrameTask{file, video_.time_s(), file, decode};
  }
  std::string defect() const { return video_.defect(); }
  /// How many there will be, by what the container promises; 0 where it promises nothing.
  std::size_t expected() const { return chosen_ ? chosen_->size() : video_.promised_frames(); }

 private:
  const FrameOptions& options_;
  std::string name_;
  VideoReader video_;
  std::optional<std::vector<std::size_t>> chosen_;
  DecodingBudget budget_;
  std::size_t wanted_ = 0, taken_ = 0;
  std::size_t beside_ = 0;  // bytes_beside_pixels() of the frames before
};

std::vector<FrameResult> load_video(const FrameOptions& options, const Pixels& pixels,
                                    const Progress& progress, std::string& defect) {
  std::optional<std::vector<std::size_t>> chosen;
  if (options.max_frames) chosen = choose_video_frames(options, progress, defect);
  const int total = chosen ? static_cast<int>(chosen->size()) : 0;
  VideoTasks tasks(options, std::move(chosen));
  std::vector<FrameResult> results = run_frame_tasks(
      options, [&] { return tasks.next(); }, *pixels.rgb,
      [&](int done) {
        if (progress) progress(done, total);
      },
      pixels.gray_store(options, tasks.expected()));
  if (!options.max_frames) defect = tasks.defect();
  return results;
}

// Reads the colours of the frames with these results from the pieces of these numbers, and pads them.
ReadRgb padded_pixels(std::shared_ptr<const PieceStore> pixels, std::vector<std::size_t> pieces,
                      std::vector<Padding> paddings) {
  return [pixels = std::move(pixels), pieces = std::move(pieces), paddings = std::move(paddings)](
             std::size_t frame, std::span<uint8_t> rgb) {
    std::vector<std::byte> buffer;
    const std::span<const std::byte> stored = pixels->get(pieces.at(frame), buffer);
    if (stored.size() == rgb.size()) {
      std::memcpy(rgb.data(), stored.data(), rgb.size());
    } else {
      paddings[frame].fill(reinterpret_cast<const uint8_t*>(stored.data()), rgb.data());
    }
  };
}

// A frame without its pixels.
FrameResult sized_frame(const FrameOptions& options, std::string file, double time_s, int width, int height) {
  const FittedImage fitted = fit_size(width, height, options.fit, options.width, options.patch_size);
  FrameResult result{.width = fitted.width, .height = fitted.height};
  result.frame.file = std::move(file);
  result.frame.time_s = time_s;
  result.frame.map = fitted.map;
  result.frame.original_width = width;
  result.frame.original_height = height;
  return result;
}

std::vector<FrameResult> size_images(const FrameOptions& options, SourceKind kind, const Progress& progress,
                                     std::vector<std::string>& names) {
  const SourceImages images(options, kind);
  names = images.names();
  const std::vector<std::size_t> chosen = choose_evenly(names.size(), options.max_frames);
  std::vector<FrameResult> results;
  for (const std::size_t index : chosen) {
    const auto size = [&] {
      const ImageSize image = images.size(index);
      if (std::max(image.width, image.height) > INT_MAX) throw std::invalid_argument("is too large");
      results.push_back(sized_frame(options, names[index], static_cast<double>(index),
                                    static_cast<int>(image.width), static_cast<int>(image.height)));
      results.back().frame.camera = image.camera;
      results.back().frame.quarter_turns = image.quarter_turns;
      results.back().frame.source_bytes = image.bytes;
    };
    const std::string problem = problem_of(images.where(index), size);
    if (!problem.empty()) results.push_back({.problem = problem});
    if (progress) progress(static_cast<int>(results.size()), static_cast<int>(chosen.size()));
  }
  return results;
}

std::vector<FrameResult> size_video(const FrameOptions& options, const Progress& progress,
                                    std::string& defect) {
  const std::string name = options.source.filename().string();
  VideoReader video(options.source, sampling_of(options));
  const auto sized = [&](cv::Size size, int64_t number) {
    FrameResult result =
        sized_frame(options, name + "#" + std::to_string(number), video.time_s(), size.width, size.height);
    result.frame.source_bytes =
        video.decoder_bytes() + video.frame_bytes() + bytes_beside_pixels(options, size.width, size.height);
    return result;
  };
  if (options.first_frame && !video.size().empty()) return {sized(video.size(), 0)};
  std::vector<FrameResult> all;
  cv::Size size;
  while (video.advance()) {
    if (all.empty()) size = video.pixels().size();
    if (size.empty()) throw std::invalid_argument(options.source.string() + ": cannot be decoded");
    all.push_back(sized(size, video.frame_number()));
    if (options.first_frame) return all;
    if (progress) progress(static_cast<int>(all.size()), 0);
  }
  defect = video.defect();
  std::vector<FrameResult> results;
  for (const std::size_t i : choose_evenly(all.size(), options.max_frames)) results.push_back(all[i]);
  return results;
}

// The frames that were loaded, padded to one size; the problems of the others become warnings.
FrameSet assemble(const FrameOptions& options, std::vector<FrameResult> results, Pixels pixels) {
  FrameSet set;
  for (const FrameResult& result : results) {
    if (!result.problem.empty()) {
      if (options.strict) throw std::invalid_argument(result.problem);
      set.warnings.push_back(result.problem);
    }
    set.width = std::max(set.width, result.width);
    set.height = std::max(set.height, result.height);
  }
  if (set.warnings.size() == results.size()) {
    // Paths and images in memory have no source.
    const std::string source = options.source.empty() ? "" : options.source.string() + ": ";
    if (results.empty()) throw std::invalid_argument(source + "no frames");
    if (results.size() == 1) throw std::invalid_argument("no frames: " + set.warnings.front());
    throw std::invalid_argument(source + "none of the " + std::to_string(results.size()) +
                                " frames can be used; the first: " + set.warnings.front());
  }
  std::vector<std::size_t> pieces;
  std::vector<Padding> paddings;
  for (std::size_t i = 0; i < results.size(); ++i) {
    FrameResult& result = results[i];
    if (!result.problem.empty()) continue;
    const Padding padding{result.width, result.height, set.width, set.height};
    result.frame.map.pad_x += padding.left();
    result.frame.map.pad_y += padding.top();
    set.frames.push_back(std::move(result.frame));
    pieces.push_back(i);
    paddings.push_back(padding);
  }
  if (pixels.gray) {
    set.read_gray = [gray = std::move(pixels.gray), pieces](std::size_t frame, std::span<uint8_t> to) {
      std::vector<std::byte> buffer;
      const std::span<const std::byte> stored = gray->get(pieces.at(frame), buffer);
      std::memcpy(to.data(), stored.data(), to.size());
    };
  }
  if (pixels.rgb) set.read_rgb = padded_pixels(std::move(pixels.rgb), std::move(pieces), std::move(paddings));
  return set;
}

// The names that are none of the frames.
std::vector<std::string> others(std::vector<std::string> names, const std::vector<Frame>& frames) {
  std::set<std::string_view> taken;
  for (const Frame& frame : frames) taken.insert(frame.file);
  std::erase_if(names, [&](const std::string& name) { return taken.contains(name); });
  return names;
}

// What is to be said of grey images with values above 255; empty where there are none.
std::string clipping_of(const std::vector<Frame>& frames) {
  const auto first = std::ranges::find_if(frames, &Frame::is_clipped);
  if (first == frames.end()) return {};
  const auto others = std::count_if(first + 1, frames.end(), [](const Frame& f) { return f.is_clipped; });
  const std::string names =
      first->file +
      (others > 0 ? " and " + std::to_string(others) + (others > 1 ? " others" : " other") : "");
  return names + (others > 0 ? " are" : " is") +
         " grey with values above 255, which are white here, as Pillow makes them: convert to 8 bits";
}

FrameSet with_notes(const FrameOptions& options, FrameSet set, std::vector<std::string> names,
                    const std::string& defect) {
  for (const Frame& frame : set.frames) {  // an image's time is its number
    if (!options.images.empty()) set.images.push_back(options.images[static_cast<std::size_t>(frame.time_s)]);
  }
  set.not_taken = others(std::move(names), set.frames);
  if (!defect.empty()) set.warnings.push_back(defect);
  if (const std::string clipping = clipping_of(set.frames); !clipping.empty()) set.notes.push_back(clipping);
  return set;
}

FrameSet load_images_or_video(const FrameOptions& options, SourceKind kind, const Progress& progress) {
  std::string defect;
  std::vector<std::string> names;
  const bool is_video = kind == SourceKind::video;
  if (!options.pixels) {
    FrameSet set = assemble(
        options,
        is_video ? size_video(options, progress, defect) : size_images(options, kind, progress, names), {});
    return with_notes(options, std::move(set), std::move(names), defect);
  }
  const auto space = options.space ? options.space : std::make_shared<HostSpace>();
  Pixels pixels{std::make_shared<PieceStore>(space, "frames"), nullptr};
  if (options.gray_side > 0) pixels.gray = std::make_shared<PieceStore>(space, "gray");
  std::vector<FrameResult> results = is_video ? load_video(options, pixels, progress, defect)
                                              : load_images(options, kind, pixels, progress, names);
  return with_notes(options, assemble(options, std::move(results), pixels), std::move(names), defect);
}

std::size_t at_most(std::optional<int> most, std::size_t count) {
  return most ? std::min(count, static_cast<std::size_t>(*most)) : count;
}

}  // namespace

FrameSet load_frames(const FrameOptions& options, const Progress& progress) {
  const SourceKind kind = kind_of_source(options);
  check_options(options, kind);
  if (!options.masks.empty()) refuse_frames_as_masks(options);
  FrameSet set = kind == SourceKind::tensor_file ? load_tensor_frames(options, progress)
                                                 : load_images_or_video(options, kind, progress);
  if (!options.masks.empty()) set.read_mask = load_masks(options, set, progress);
  return set;
}

std::size_t bytes_beside_pixels(const FrameOptions& options, int64_t width, int64_t height) {
  const auto columns = static_cast<std::size_t>(width), rows = static_cast<std::size_t>(height);
  return 3 * static_cast<std::size_t>(options.width) * rows + (options.gray_side > 0 ? columns * rows : 0);
}

std::optional<HeaderFrames> frames_of_header(const FrameOptions& options) try {
  const SourceKind kind = kind_of_source(options);
  if (kind != SourceKind::video) return std::nullopt;
  check_options(options, kind);
  const auto header = read_video_header(options.source, sampling_of(options));
  if (!header) return std::nullopt;
  const auto [width, height] = header->size;
  FrameResult result = sized_frame(options, options.source.filename().string() + "#0", 0, width, height);
  result.frame.source_bytes = header->decoder_bytes +
                              3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height) +
                              bytes_beside_pixels(options, width, height);
  return HeaderFrames{assemble(options, {std::move(result)}, {}),
                      at_most(options.max_frames, header->promised_frames), header->has_format};
} catch (const std::invalid_argument&) {  // of a size that cannot be: the decoder tells the true one
  return std::nullopt;
}

std::size_t promised_frames(const FrameOptions& options) try {
  return at_most(options.max_frames, VideoReader(options.source, sampling_of(options)).promised_frames());
} catch (const std::exception&) {  // loading says why
  return 0;
}

}  // namespace vggt
