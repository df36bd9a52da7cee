#include "app/run/frame_input.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vggt {
namespace {

/// First and last + 1 network pixel whose centre shows the image, of one axis.
std::pair<int, int> shown(double first_original, double last_original, int size) {
  // What rounding leaves of a pixel at the border still shows it.
  constexpr double kSlack = 0.01;
  const int begin = static_cast<int>(std::ceil(first_original - kSlack));
  const int end = static_cast<int>(std::floor(last_original + kSlack)) + 1;
  return {std::clamp(begin, 0, size), std::clamp(end, 0, size)};
}

}  // namespace

FrameOptions frame_options(const Options& options, const Config& config) {
  FrameOptions frame_options;
  frame_options.source = options.frames;
  frame_options.fit = options.fit == "pad" ? Fit::pad : Fit::crop;
  frame_options.width = static_cast<int>(options.width.value_or(config.input_width));
  frame_options.patch_size = static_cast<int>(config.patch_size);
  frame_options.fps = options.fps;
  if (options.stride) frame_options.stride = static_cast<int>(*options.stride);
  if (options.max_frames) frame_options.max_frames = static_cast<int>(*options.max_frames);
  frame_options.strict = options.strict;
  frame_options.threads = static_cast<int>(options.threads);
  return frame_options;
}

at::Tensor frame_pixels(const FrameSet& frames, int64_t first, int64_t count) {
  const bool exact = !frames.frames.front().pixels.empty();
  at::Tensor batch =
      at::empty({count, 3, frames.height, frames.width}, exact ? at::kFloat : at::kByte);  // [F,3,H,W]
  for (int64_t i = 0; i < count; ++i) {
    const Frame& frame = frames.frames[static_cast<std::size_t>(first + i)];
    const void* values = exact ? static_cast<const void*>(frame.pixels.data()) : frame.rgb.data();
    at::Tensor place = batch[i];  // [3,H,W]
    std::memcpy(place.data_ptr(), values, place.nbytes());
  }
  return batch;
}

FrameProvider provide_frames(const FrameSet& frames) {
  FrameProvider provider;
  provider.frames = static_cast<int64_t>(frames.frames.size());
  provider.height = frames.height;
  provider.width = frames.width;
  provider.get = [&frames](int64_t first, int64_t count) { return frame_pixels(frames, first, count); };
  return provider;
}

std::vector<FrameView> frame_views(const FrameSet& frames) {
  std::vector<FrameView> views;
  for (const Frame& frame : frames.frames) {
    const PixelMap& map = frame.map;
    const auto [begin_x, end_x] =
        shown(map.network_x(-0.5), map.network_x(frame.original_width - 0.5), frames.width);
    const auto [begin_y, end_y] =
        shown(map.network_y(-0.5), map.network_y(frame.original_height - 0.5), frames.height);
    views.push_back({frame.rgb.data(), begin_x, end_x, begin_y, end_y});
  }
  return views;
}

std::vector<SceneCamera> scene_cameras(const FrameSet& frames, const std::vector<View>& views,
                                       const std::vector<double>& mean_confidence) {
  std::vector<SceneCamera> cameras;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Frame& frame = frames.frames[i];
    SceneCamera camera;
    camera.file = frame.file;
    camera.time_s = frame.time_s;
    camera.network_width = frames.width;
    camera.network_height = frames.height;
    camera.original_width = frame.original_width;
    camera.original_height = frame.original_height;
    camera.k_network = views[i].k;
    camera.k_original = original_intrinsics(views[i].k, frame.map);
    camera.cam_from_world = views[i].cam_from_world;
    camera.mean_confidence = i < mean_confidence.size() ? mean_confidence[i] : 0;
    camera.valid = views[i].valid;
    cameras.push_back(std::move(camera));
  }
  return cameras;
}

}  // namespace vggt
