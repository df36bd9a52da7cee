#include "app/adjust/copied_frames.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
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

  /// Whether the other image is this one: it differs by at most a fiftieth of the sum of the slopes, as it
  /// does after a shift of a few hundredths of a pixel.
  bool shows(const Green& other) const {
    constexpr double kMost = 0.02;
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
           static_cast<double>(differences) <= kMost * static_cast<double>(slopes);
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
  constexpr float kMost = 0.5;
  return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) < kMost; });
}

bool may_be_copies(const MatchFrame& a, const MatchFrame& b) {
  return a.original_width == b.original_width && a.original_height == b.original_height &&
         a.camera == b.camera && a.map.scale_x == b.map.scale_x && a.map.scale_y == b.map.scale_y &&
         a.map.pad_x == b.map.pad_x && a.map.pad_y == b.map.pad_y;
}

bool have_one_lens(const Camera& a, const Camera& b) {
  return a.k == b.k && a.distortion == b.distortion && a.model == b.model && a.camera_id == b.camera_id;
}

}  // namespace

std::vector<std::size_t> first_copies(const MatchInput& input, const std::vector<Camera>& cameras,
                                      bool lens_is_known, const Events& events) {
  constexpr int kMostCompared = 16;  // frames with one: of a camera that stands still all look nearly alike
  std::vector<std::size_t> first(cameras.size()), distinct;
  std::iota(first.begin(), first.end(), 0);
  if (input.read_mask) return first;
  std::vector<Sketch> sketches(cameras.size());
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    events.check_stop();
    if (!cameras[i].valid) continue;
    const Green green(input, i);
    sketches[i] = green.sketch();
    int compared = 0;
    for (auto other = distinct.rbegin(); other != distinct.rend() && compared < kMostCompared; ++other) {
      if (!is_near(sketches[i], sketches[*other]) || !may_be_copies(input.frames[i], input.frames[*other]) ||
          (lens_is_known && !have_one_lens(cameras[i], cameras[*other])))
        continue;
      events.check_stop();
      ++compared;
      if (!green.shows(Green(input, *other))) continue;
      first[i] = *other;
      break;
    }
    if (first[i] == i) distinct.push_back(i);
  }
  return first;
}

std::vector<Camera> without_copies(std::vector<Camera> cameras, const std::vector<std::size_t>& first) {
  for (std::size_t i = 0; i < first.size(); ++i) cameras[i].valid &= first[i] == i;
  return cameras;
}

namespace {

/// What a frame observes, its copies observe too.
void observe_in_copies(const std::vector<std::size_t>& first, std::vector<Track>& tracks) {
  std::vector<std::vector<int>> copies(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] != i) copies[first[i]].push_back(static_cast<int>(i));
  }
  for (Track& track : tracks) {
    const std::size_t count = track.observations.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Observation seen = track.observations[i];
      for (const int copy : copies[static_cast<std::size_t>(seen.frame)])
        track.observations.push_back({copy, seen.pixel});
    }
    std::ranges::sort(track.observations, {}, &Observation::frame);
  }
}

}  // namespace

void give_to_copies(const std::vector<std::size_t>& first, const std::vector<Camera>& given, DenseMaps& depth,
                    AdjustedScene& scene) {
  DenseMaps::Buffer buffer;
  int copies = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == i) continue;
    ++copies;
    const auto frame = static_cast<int>(i), shown_frame = static_cast<int>(first[i]);
    const Camera& shown = scene.cameras[first[i]];
    Camera& camera = scene.cameras[i] = given[i];
    camera.k = shown.k;
    camera.distortion = shown.distortion;
    camera.model = shown.model;
    camera.camera_id = shown.camera_id;
    if (!scene.changed) continue;
    camera.cam_from_world = shown.cam_from_world;
    if (std::ranges::count(scene.weak_frames, shown_frame) > 0) scene.weak_frames.push_back(frame);
    for (std::vector<int>& group : scene.groups) {
      if (std::ranges::count(group, shown_frame) > 0) group.push_back(frame);
    }
    if (!depth.has(frame)) continue;
    const std::span<const float> values = depth.values(shown_frame, buffer);
    depth.put_values(frame, std::vector<float>(values.begin(), values.end()));
  }
  if (copies == 0) return;
  observe_in_copies(first, scene.tracks);
  std::ranges::sort(scene.weak_frames);
  for (std::vector<int>& group : scene.groups) std::ranges::sort(group);
  scene.summary += "; " + std::to_string(copies) +
                   (copies == 1 ? " frame is a copy of another" : " frames are copies of others");
}

}  // namespace vggt
