#include "app/report/picture.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <span>

#include "app/report/picture_view.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

using Eigen::Vector2f, Eigen::Vector3d, Eigen::Vector3f;

const Canvas::Color kBackground(36, 38, 42);  // bright and dark surfaces both stand out

/// From the world to (x, y, depth) in the picture.
class Projection {
 public:
  Projection(const PictureView& view, int width, int height)
      : view_(view), middle_(0.5F * static_cast<float>(width), 0.5F * static_cast<float>(height)) {}

  Vector3f operator()(const Vector3d& point) const {
    const Vector3d p = (view_.view_from_world.matrix() * point.homogeneous()).head<3>();
    const Vector3f at = p.cast<float>();
    const auto focal = static_cast<float>(view_.focal);
    return {middle_.x() + focal * at.x() / at.z(), middle_.y() + focal * at.y() / at.z(), at.z()};
  }

 private:
  const PictureView& view_;
  Eigen::Vector2f middle_;
};

/// How far apart neighbouring points are in each part of the picture, in pixels.
class Spacing {
 public:
  Spacing(int width, int height)
      : side_(static_cast<float>(std::max(width, height)) / 160),
        columns_(whole(static_cast<float>(width)) + 1),
        counts_(columns_ * (whole(static_cast<float>(height)) + 1)),
        width_(static_cast<float>(width)),
        height_(static_cast<float>(height)) {}

  bool inside(const Vector3f& at) const {
    return at.x() >= 0 && at.y() >= 0 && at.x() <= width_ && at.y() <= height_;
  }
  void add(const Vector2f& at) { ++counts_[part(at)]; }
  float at(const Vector2f& pixel) const {
    return side_ / std::sqrt(static_cast<float>(counts_[part(pixel)]));
  }

 private:
  std::size_t whole(float pixels) const { return static_cast<std::size_t>(pixels / side_); }
  std::size_t part(const Vector2f& at) const { return whole(at.y()) * columns_ + whole(at.x()); }

  float side_;  // of a part, pixels: large enough for some points, small beside what the picture shows
  std::size_t columns_;
  std::vector<int> counts_;
  float width_, height_;
};

void draw_points(const PointCloud& cloud, const PictureView& view, const Projection& project, int width,
                 int height, Canvas& canvas) {
  std::vector<Canvas::Disc> discs;
  discs.reserve(cloud.points.size());
  Spacing spacing(width, height);
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    const Vector3f pixel = project(cloud.points[i].cast<double>());
    if (!(pixel.z() > 0 && pixel.z() >= view.nearest && spacing.inside(pixel))) continue;
    discs.push_back({pixel.head<2>(), 0, pixel.z(), cloud.colors[i]});
    spacing.add(discs.back().centre);
  }
  if (discs.empty()) return;
  std::vector<float> typical;
  typical.reserve(discs.size());
  for (const Canvas::Disc& disc : discs) typical.push_back(spacing.at(disc.centre));
  const auto largest = 2.5F * static_cast<float>(median(std::span(typical)));
  for (Canvas::Disc& disc : discs)
    disc.radius = std::max(0.7F, 1.2F * std::min(spacing.at(disc.centre), largest));
  canvas.draw(discs);
}

void draw_cameras(const std::vector<Frustum>& frustums, const Projection& project, float line_width,
                  Canvas& canvas) {
  for (std::size_t i = 0; i < frustums.size(); ++i) {
    const Canvas::Color color = camera_color(i, frustums.size());
    const auto line = [&](const Vector3d& a, const Vector3d& b) {
      const Vector3f from = project(a), to = project(b);
      if (from.z() > 0 && to.z() > 0) canvas.line(from, to, line_width, color);
    };
    const Frustum& f = frustums[i];
    for (std::size_t k = 0; k < f.corners.size(); ++k) {
      line(f.centre, f.corners[k]);
      line(f.corners[k], f.corners[(k + 1) % f.corners.size()]);
    }
  }
}

}  // namespace

Canvas::Color camera_color(std::size_t i, std::size_t count) {
  const std::vector<Vector3f> stops = {{38, 84, 235}, {16, 170, 160}, {245, 190, 30}, {226, 48, 40}};
  const float at = count < 2 ? 0 : 3 * static_cast<float>(i) / static_cast<float>(count - 1);
  const auto stop = std::min<std::size_t>(static_cast<std::size_t>(at), 2);
  const float share = at - static_cast<float>(stop);
  return (stops[stop] * (1 - share) + stops[stop + 1] * share).array().round().cast<uint8_t>();
}

Picture draw_picture(const PointCloud& cloud, const std::vector<Camera>& cameras, int width, int height) {
  const std::vector<Frustum> frustums = frustums_of(cameras, cloud.points);
  const PictureView view = picture_view(cloud.points, frustums, width, height);
  const Projection project(view, width, height);
  Canvas canvas(width, height, kBackground);
  draw_points(cloud, view, project, width, height, canvas);
  canvas.shade(3);
  const float line_width = std::max(1.0F, static_cast<float>(std::max(width, height)) / 560);
  draw_cameras(frustums, project, line_width, canvas);
  return canvas.finish();
}

}  // namespace vggt
