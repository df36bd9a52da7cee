#include "app/adjust/copied_frames.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace vggt {
namespace {

constexpr int kCells = 8;  // of a sketch, a side

/// The mean of each cell of an image.
using Sketch = std::array<float, static_cast<std::size_t>(kCells) * kCells>;

/// The green values of a frame, [H,W].
class Green {
 public:
  Green(const MatchInput& input, std::size_t frame) : width_(input.width), height_(input.height) {
    std::vector<uint8_t> rgb(3 * pixels());
    input.read_rgb(frame, rgb);
    values_.assign(rgb.begin() + static_cast<std::ptrdiff_t>(pixels()),
                   rgb.begin() + static_cast<std::ptrdiff_t>(2 * pixels()));
  }

  Sketch sketch() const {
    Sketch sums{}, counts{};
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        const auto cell = static_cast<std::size_t>(y * kCells / height_ * kCells + x * kCells / width_);
        sums[cell] += static_cast<float>(at(x, y));
        counts[cell] += 1;
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= std::max(counts[i], 1.0F);
    return sums;
  }

  /// Whether the other image is this one: its differences are those of a shift by less than kShift.
  bool shows(const Green& other) const {
    constexpr double kShift = 0.02;  // pixels
    int64_t differences = 0, slopes = 0;
    for (int y = 0; y + 1 < height_; ++y) {
      for (int x = 0; x + 1 < width_; ++x) {
        const int value = at(x, y);
        differences += std::abs(value - other.at(x, y));
        slopes += std::abs(value - at(x + 1, y)) + std::abs(value - at(x, y + 1));
      }
    }
    // Where nothing is to be seen all look alike.
    return slopes > static_cast<int64_t>(pixels()) / 2 &&
           static_cast<double>(differences) <= kShift * static_cast<double>(slopes);
  }

 private:
  std::size_t pixels() const { return static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_); }
  int at(int x, int y) const {
    return values_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                   static_cast<std::size_t>(x)];
  }

  int width_, height_;
  std::vector<uint8_t> values_;
};

bool is_near(const Sketch& a, const Sketch& b) {
  constexpr float kMost = 1;
  return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) < kMost; });
}

bool may_be_copies(const MatchFrame& a, const MatchFrame& b) {
  return a.original_width == b.original_width && a.original_height == b.original_height &&
         a.camera == b.camera && a.map.scale_x == b.map.scale_x && a.map.scale_y == b.map.scale_y;
}

}  // namespace

std::vector<std::size_t> first_copies(const MatchInput& input, const std::vector<Camera>& cameras,
                                      const Events& events) {
  std::vector<std::size_t> first(cameras.size()), distinct;
  std::vector<Sketch> sketches(cameras.size());
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    events.check_stop();
    first[i] = i;
    if (!cameras[i].valid) continue;
    const Green green(input, i);
    sketches[i] = green.sketch();
    const auto found = std::ranges::find_if(distinct, [&](std::size_t other) {
      return is_near(sketches[i], sketches[other]) && may_be_copies(input.frames[i], input.frames[other]) &&
             green.shows(Green(input, other));
    });
    if (found == distinct.end()) {
      distinct.push_back(i);
    } else {
      first[i] = *found;
    }
  }
  return first;
}

std::vector<Camera> without_copies(std::vector<Camera> cameras, const std::vector<std::size_t>& first) {
  for (std::size_t i = 0; i < first.size(); ++i) cameras[i].valid &= first[i] == i;
  return cameras;
}

void give_to_copies(const std::vector<std::size_t>& first, const std::vector<Camera>& given,
                    bool lens_is_known, DenseMaps& depth, AdjustedScene& scene) {
  DenseMaps::Buffer buffer;
  int copies = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == i) continue;
    ++copies;
    const Camera& shown = scene.cameras[first[i]];
    Camera& camera = scene.cameras[i] = given[i];
    if (!lens_is_known) {
      camera.k = shown.k;
      camera.distortion = shown.distortion;
      camera.model = shown.model;
      camera.camera_id = shown.camera_id;
    }
    if (!scene.changed) continue;
    camera.cam_from_world = shown.cam_from_world;
    const auto frame = static_cast<int>(i);
    if (!depth.has(frame)) continue;
    const std::span<const float> values = depth.values(static_cast<int>(first[i]), buffer);
    depth.put_values(frame, std::vector<float>(values.begin(), values.end()));
  }
  if (copies > 0)
    scene.summary += "; " + std::to_string(copies) +
                     (copies == 1 ? " frame is a copy of another" : " frames are copies of others");
}

}  // namespace vggt
