#include "app/report/picture_canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <opencv2/core/utility.hpp>

namespace vggt {
namespace {

constexpr int kSamples = 2;  // along each side of a pixel
constexpr float kNothing = std::numeric_limits<float>::infinity();

Canvas::Color mixed(const Canvas::Color& a, const Canvas::Color& b, float share_of_b) {
  return (a.cast<float>() * (1 - share_of_b) + b.cast<float>() * share_of_b).array().round().cast<uint8_t>();
}

/// The number as an int, at most a million from 0: beyond every picture the exact place does not matter.
int whole(float number) {
  constexpr float kBeyond = 1e6F;
  return number > -kBeyond ? static_cast<int>(std::min(number, kBeyond)) : static_cast<int>(-kBeyond);
}
int first_sample(float coordinate) {
  return whole(std::ceil(coordinate - 0.5F));
}
int last_sample(float coordinate) {
  return whole(std::floor(coordinate - 0.5F));
}

}  // namespace

Canvas::Canvas(int width, int height, const Color& background)
    : width_(width * kSamples),
      height_(height * kSamples),
      depth_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), kNothing),
      colors_(depth_.size(), background) {}

std::size_t Canvas::index(int x, int y) const {
  return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
}

void Canvas::draw(const Disc& disc, int top, int end) {
  const Eigen::Vector2f c = disc.centre * kSamples;
  const float r = disc.radius * kSamples;
  if (!(c.x() > -r && c.x() < static_cast<float>(width_) + r)) return;
  if (!(c.y() > static_cast<float>(top) - r && c.y() < static_cast<float>(end) + r)) return;
  const int bottom = std::min(end - 1, last_sample(c.y() + r));
  for (int y = std::max(top, first_sample(c.y() - r)); y <= bottom; ++y) {
    const float dy = static_cast<float>(y) + 0.5F - c.y();
    const float half = std::sqrt(std::max(0.0F, r * r - dy * dy));
    const int right = std::min(width_ - 1, last_sample(c.x() + half));
    for (int x = std::max(0, first_sample(c.x() - half)); x <= right; ++x) {
      const std::size_t i = index(x, y);
      if (disc.depth >= depth_[i]) continue;
      depth_[i] = disc.depth;
      colors_[i] = disc.color;
    }
  }
}

void Canvas::draw(const std::vector<Disc>& discs) {
  // Each part goes through all discs. Parts differ in how much lies in them, so there are some for each
  // thread.
  const int parts = 4 * std::max(1, cv::getNumThreads());
  cv::parallel_for_(
      {0, height_},
      [&](const cv::Range& rows) {
        for (const Disc& disc : discs) draw(disc, rows.start, rows.end);
      },
      parts);
}

void Canvas::shade_row(int y, float strength, std::vector<float>& behind) {
  constexpr std::array<std::array<int, 2>, 8> kAround = {
      {{2, 0}, {-2, 0}, {0, 2}, {0, -2}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}};
  const float* const depth = &depth_[index(0, y)];
  behind.assign(static_cast<std::size_t>(width_), 0);
  for (const auto& [dx, dy] : kAround) {
    const int off = dx * kSamples, other_y = y + dy * kSamples;
    if (other_y < 0 || other_y >= height_) continue;
    const float* const other = &depth_[index(0, other_y)];
    const int end = std::min(width_, width_ - off);
    for (int x = std::max(0, -off); x < end; ++x) {
      // The ripple of discs on a slope is less than 2 %.
      behind[static_cast<std::size_t>(x)] += std::clamp(0.98F - other[x + off] / depth[x], 0.0F, 0.1F);
    }
  }
  for (int x = 0; x < width_; ++x) {
    const float much = behind[static_cast<std::size_t>(x)];
    if (depth[x] == kNothing || much == 0) continue;
    Color& color = colors_[index(x, y)];
    color = mixed(color, Color::Zero(), 1 - std::exp(-strength * much));
  }
}

void Canvas::shade(float strength) {
  cv::parallel_for_({0, height_}, [&](const cv::Range& rows) {
    std::vector<float> behind;
    for (int y = rows.start; y < rows.end; ++y) shade_row(y, strength, behind);
  });
}

void Canvas::blend(int x, int y, float depth, const Color& color) {
  constexpr float kHidden = 0.3F;
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  Color& there = colors_[index(x, y)];
  there = mixed(there, color, depth <= depth_[index(x, y)] ? 1 : kHidden);
}

void Canvas::line(const Eigen::Vector3f& a, const Eigen::Vector3f& b, float width, const Color& color) {
  const int along = std::abs(b.x() - a.x()) >= std::abs(b.y() - a.y()) ? 0 : 1, across = 1 - along;
  const Eigen::Vector3f& first = a(along) <= b(along) ? a : b;
  const Eigen::Vector3f& last = a(along) <= b(along) ? b : a;
  const Eigen::Vector2f span = (last - first).head<2>();
  if (!(span.norm() > 0)) return;
  const float half = 0.5F * width * span.norm() / span(along);  // half the extent along the other axis
  const int limit = along == 0 ? width_ : height_;
  const int end = std::min(limit - 1, last_sample(last(along) * kSamples));
  for (int i = std::max(0, first_sample(first(along) * kSamples)); i <= end; ++i) {
    const float t = ((static_cast<float>(i) + 0.5F) / kSamples - first(along)) / span(along);
    const float depth = 1 / ((1 - t) / first.z() + t / last.z());  // 1/z is straight in a picture
    const float middle = first(across) + t * span(across);
    const int from = std::max(-1, first_sample((middle - half) * kSamples));
    const int to = std::min(std::max(width_, height_), last_sample((middle + half) * kSamples));
    for (int j = from; j <= to; ++j) along == 0 ? blend(i, j, depth, color) : blend(j, i, depth, color);
  }
}

Picture Canvas::finish() const {
  Picture picture{width_ / kSamples, height_ / kSamples, {}};
  picture.rgb.resize(static_cast<std::size_t>(3 * picture.width) * static_cast<std::size_t>(picture.height));
  cv::parallel_for_({0, picture.height}, [&](const cv::Range& rows) {
    auto at = picture.rgb.begin() + static_cast<std::ptrdiff_t>(3) * rows.start * picture.width;
    for (int y = rows.start; y < rows.end; ++y) {
      const Color* const samples = &colors_[index(0, y * kSamples)];
      for (int x = 0; x < picture.width; ++x) {
        Eigen::Vector3i sum = Eigen::Vector3i::Constant(kSamples * kSamples / 2);
        for (int s = 0; s < kSamples * kSamples; ++s)
          sum += samples[s / kSamples * width_ + x * kSamples + s % kSamples].cast<int>();
        for (const int channel : sum) *at++ = static_cast<uint8_t>(channel / (kSamples * kSamples));
      }
    }
  });
  return picture;
}

}  // namespace vggt
