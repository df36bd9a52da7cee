#include "app/health/small_frames.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vggt {
namespace {

constexpr int kFew = 1000;                          // frames; of more, each is smaller
constexpr int kLongerSide = 48, kSmallerSide = 32;  // cells
constexpr int kAround = 3;  // cells on each side that a cell's brightness is held against
constexpr std::size_t kConfidenceStep = 5;

/// Mean brightness of each cell; what is not the image counts as what it shows.
std::vector<float> brightness(const std::vector<uint8_t>& rgb, const SmallFrames& small, int width,
                              int height) {
  const std::size_t plane = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  std::vector<float> cells;
  cells.reserve(static_cast<std::size_t>(small.width) * static_cast<std::size_t>(small.height));
  for (int row = 0; row < small.height; ++row) {
    for (int column = 0; column < small.width; ++column) {
      double sum = 0;
      for (int y = row * small.cell; y < (row + 1) * small.cell; ++y) {
        const std::size_t first = static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                                  static_cast<std::size_t>(column * small.cell);
        for (std::size_t i = first; i < first + static_cast<std::size_t>(small.cell); ++i)
          sum += 0.299 * rgb[i] + 0.587 * rgb[plane + i] + 0.114 * rgb[2 * plane + i];
      }
      cells.push_back(static_cast<float>(sum / (small.cell * small.cell)));
    }
  }
  return cells;
}

float deviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = std::max<double>(1, static_cast<double>(values.size())), mean = sum / count;
  return static_cast<float>(std::sqrt(std::max(0.0, squares / count - mean * mean)));
}

/// Each value less the mean around it: what light and exposure change little.
std::vector<float> detail_of(const std::vector<float>& values, int width, int height) {
  std::vector<double> sums(static_cast<std::size_t>((width + 1) * (height + 1)));
  const auto at = [&](int x, int y) -> double& {
    return sums[static_cast<std::size_t>(y) * static_cast<std::size_t>(width + 1) +
                static_cast<std::size_t>(x)];
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      at(x + 1, y + 1) = static_cast<double>(values[static_cast<std::size_t>(y * width + x)]) + at(x, y + 1) +
                         at(x + 1, y) - at(x, y);
    }
  }
  std::vector<float> detail;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int x0 = std::max(0, x - kAround), x1 = std::min(width, x + kAround + 1);
      const int y0 = std::max(0, y - kAround), y1 = std::min(height, y + kAround + 1);
      const double mean = (at(x1, y1) - at(x0, y1) - at(x1, y0) + at(x0, y0)) / ((x1 - x0) * (y1 - y0));
      detail.push_back(static_cast<float>(values[static_cast<std::size_t>(y * width + x)] - mean));
    }
  }
  return detail;
}

/// The values in the cells' middles; NaN outside of the image.
std::vector<float> middles(const std::vector<float>& map, const SmallFrames& small, int width,
                           const FrameView& view) {
  std::vector<float> values;
  for (int row = 0; row < small.height; ++row) {
    for (int column = 0; column < small.width; ++column) {
      const int x = column * small.cell + small.cell / 2, y = row * small.cell + small.cell / 2;
      const bool shown = x >= view.begin_x && x < view.end_x && y >= view.begin_y && y < view.end_y;
      values.push_back(shown ? map[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                                   static_cast<std::size_t>(x)]
                             : std::numeric_limits<float>::quiet_NaN());
    }
  }
  return values;
}

SmallFrame small_frame(const MapReaders& readers, const SmallFrames& small, int frame) {
  const std::size_t plane =
      static_cast<std::size_t>(readers.width) * static_cast<std::size_t>(readers.height);
  std::vector<uint8_t> rgb(3 * plane);
  readers.read_rgb(static_cast<std::size_t>(frame), rgb);
  const std::vector<float> light = brightness(rgb, small, readers.width, readers.height);
  SmallFrame result;
  result.contrast = deviation(light);
  result.detail = detail_of(light, small.width, small.height);
  if (!readers.read_depth) return result;
  const FrameView& view = readers.views[static_cast<std::size_t>(frame)];
  std::vector<float> map(plane);
  readers.read_depth(frame, map);
  result.depth = middles(map, small, readers.width, view);
  readers.read_confidence(frame, map);
  const std::vector<float> confidence = middles(map, small, readers.width, view);
  for (std::size_t i = 0; i < confidence.size(); i += kConfidenceStep) {
    if (std::isfinite(confidence[i])) result.confidence.push_back(confidence[i]);
  }
  return result;
}

}  // namespace

SmallFrames small_frames(const MapReaders& readers, const FrameWork& work) {
  const int frames = static_cast<int>(readers.views.size());
  const int side = frames <= kFew ? kLongerSide : kSmallerSide;
  SmallFrames small;
  const int shorter = std::min(readers.width, readers.height);
  small.cell =
      std::clamp((std::max(readers.width, readers.height) + side - 1) / side, 1, std::max(1, shorter));
  small.width = readers.width / small.cell;
  small.height = readers.height / small.cell;
  small.frames.resize(readers.views.size());
  for_each_frame(work, frames, [&](int frame, int) {
    small.frames[static_cast<std::size_t>(frame)] = small_frame(readers, small, frame);
  });
  return small;
}

}  // namespace vggt
