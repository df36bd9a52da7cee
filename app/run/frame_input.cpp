#include "app/run/frame_input.h"

#include <algorithm>
#include <cmath>

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

at::Tensor frame_pixels(const FrameSet& frames, int64_t first, int64_t count) {
  const bool exact = frames.read_exact != nullptr;
  at::Tensor batch =
      at::empty({count, 3, frames.height, frames.width}, exact ? at::kFloat : at::kByte);  // [F,3,H,W]
  for (int64_t i = 0; i < count; ++i) {
    const auto frame = static_cast<std::size_t>(first + i);
    at::Tensor place = batch[i];  // [3,H,W]
    if (exact) {
      frames.read_exact(frame, {place.data_ptr<float>(), frames.frame_values()});
    } else {
      frames.read_rgb(frame, {place.data_ptr<uint8_t>(), frames.frame_values()});
    }
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
    views.push_back({begin_x, end_x, begin_y, end_y});
  }
  return views;
}

MatchInput match_input(const FrameSet& frames, const std::shared_ptr<HostSpace>& space) {
  MatchInput input{frames.width,     frames.height,    {},   frames.read_rgb,
                   frames.read_gray, frames.read_mask, space};
  const std::vector<FrameView> views = frame_views(frames);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Frame& frame = frames.frames[i];
    input.frames.push_back({views[i], frame.map, frame.original_width, frame.original_height,
                            frame.gray_width, frame.gray_height, frame.camera});
  }
  return input;
}

void map_to_originals(const FrameSet& frames, std::vector<Camera>& cameras) {
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    cameras[i].map = frames.frames[i].map;
    cameras[i].original_width = frames.frames[i].original_width;
    cameras[i].original_height = frames.frames[i].original_height;
  }
}

std::vector<FrameCamera> frame_cameras(const FrameSet& frames, const std::vector<Camera>& cameras,
                                       const std::vector<double>& mean_confidence) {
  std::vector<FrameCamera> result;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    const Frame& frame = frames.frames[i];
    const double confidence = i < mean_confidence.size() ? mean_confidence[i] : 0;
    result.push_back({frame.file, frame.time_s, cameras[i], confidence, frame.quarter_turns});
  }
  return result;
}

}  // namespace vggt
