#include "app/report/picture_canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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

void Canvas::disc(const Eigen::Vector2f& centre, float radius, float depth, const Color& color) {
  const Eigen::Vector2f c = centre * kSamples;
  const float r = radius * kSamples;
  if (!(c.x() > -r && c.y() > -r && c.x() < width_ + r && c.y() < height_ + r)) return;
  const int top = std::max(0, first_sample(c.y() - r)),
            bottom = std::min(height_ - 1, last_sample(c.y() + r));
  for (int y = top; y <= bottom; ++y) {
    const float dy = static_cast<float>(y) + 0.5F - c.y();
    const float half = std::sqrt(std::max(0.0F, r * r - dy * dy));
    const int right = std::min(width_ - 1, last_sample(c.x() + half));
    for (int x = std::max(0, first_sample(c.x() - half)); x <= right; ++x) {
      const std::size_t i = index(x, y);
      if (depth >= depth_[i]) continue;
      depth_[i] = depth;
      colors_[i] = color;
    }
  }
}

void Canvas::shade(float strength) {
  constexpr std::array<std::array<int, 2>, 8> kAround = {
      {{2, 0}, {-2, 0}, {0, 2}, {0, -2}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}};
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const std::size_t i = index(x, y);
      if (depth_[i] == kNothing) continue;
      float behind = 0;
      for (const auto& [dx, dy] : kAround) {
        const int other_x = x + dx * kSamples, other_y = y + dy * kSamples;
        if (other_x < 0 || other_y < 0 || other_x >= width_ || other_y >= height_) continue;
        const float ratio = depth_[index(other_x, other_y)] / depth_[i];
        behind += std::clamp(0.98F - ratio, 0.0F, 0.1F);  // the ripple of discs on a slope is less than 2 %
      }
      colors_[i] = mixed(colors_[i], Color::Zero(), 1 - std::exp(-strength * behind));
    }
  }
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
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      Eigen::Vector3i sum = Eigen::Vector3i::Constant(kSamples * kSamples / 2);
      for (int s = 0; s < kSamples * kSamples; ++s)
        sum += colors_[index(x * kSamples + s % kSamples, y * kSamples + s / kSamples)].cast<int>();
      for (const int channel : sum)
        picture.rgb.push_back(static_cast<uint8_t>(channel / (kSamples * kSamples)));
    }
  }
  return picture;
}

}  // namespace vggt
