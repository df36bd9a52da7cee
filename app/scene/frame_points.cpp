#include "app/scene/frame_points.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "app/scene/rank_search.h"
#include "app/scene/surface_normal.h"

namespace vggt {
namespace {

constexpr int kBlackBelowSum = 16, kWhiteAbove = 240;

/// 1 or 0.
uint32_t is_finite(float value) {
  constexpr uint32_t kExponent = 0x7F800000;
  return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent ? 1 : 0;
}

/// The key of the least float that is not below a number.
uint32_t least_key(double number) {
  const auto rounded = static_cast<float>(number);
  return ordered_key(rounded < number ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
                                      : rounded);
}

}  // namespace

FramePoints::FramePoints(const SceneOptions& options, int width, int height, double conf_threshold)
    : options_(options), width_(width), height_(height), least_key_(least_key(conf_threshold)) {}

void FramePoints::make(const FrameMaps& frame, bool with_normals) {
  points_.clear();
  normals_.clear();
  pixels_.clear();
  dropped_ = {};
  if (frame.camera && !frame.camera->valid) {
    dropped_[static_cast<std::size_t>(Drop::invalid_frame)] = static_cast<int64_t>(width_) * height_;
    return;
  }
  read_depth(frame);
  const FrameView& view = frame.view;
  const bool judges_color = options_.mask_black || options_.mask_white,
             judges_edges = options_.depth_edge > 0;
  const auto drop = [&](Drop reason, int64_t pixels = 1) {
    dropped_[static_cast<std::size_t>(reason)] += pixels;
  };
  const int64_t shown =
      std::max<int64_t>(0, view.end_x - view.begin_x) * std::max<int64_t>(0, view.end_y - view.begin_y);
  drop(Drop::padding, static_cast<int64_t>(width_) * height_ - shown);
  points_.reserve(frame.confidence.size());
  pixels_.reserve(frame.confidence.size());
  const bool plain = !judges_color && !judges_edges && frame.points.empty() && frame.used.empty() &&
                     frame.confirmed.empty();  // numbers alone decide
  kept_.resize(static_cast<std::size_t>(width_));
  keeps_.resize(kept_.size());
  for (int y = view.begin_y; y < view.end_y; ++y) {
    const std::size_t row = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_);
    std::size_t kept = 0;
    if (plain) {
      kept = keep_plain(frame, y);
    } else {
      for (int x = view.begin_x; x < view.end_x; ++x) {
        const std::size_t pixel = row + static_cast<std::size_t>(x);
        if (!frame.used.empty() && frame.used[pixel] == 0) {
          drop(Drop::mask);
        } else if (!std::isfinite(depth_at(frame, pixel)) || !std::isfinite(frame.confidence[pixel])) {
          drop(Drop::not_finite);
        } else if (judges_color && is_background(frame, pixel)) {
          drop(Drop::color);
        } else if (judges_edges && is_edge(x, y)) {
          drop(Drop::depth_edge);
        } else if (ordered_key(frame.confidence[pixel]) >= least_key_ &&
                   (frame.confirmed.empty() || frame.confirmed[pixel] != 0)) {
          kept_[kept++] = x;
        }
      }
    }
    for (const int x : std::span(kept_).first(kept)) {
      const std::size_t pixel = row + static_cast<std::size_t>(x);
      const Eigen::Vector3f point =
          frame.points.empty() ? unproject(x, y, frame.depth[pixel])
                               : Eigen::Vector3f(Eigen::Map<const Eigen::Vector3f>(&frame.points[3 * pixel]));
      if (point.allFinite()) {
        points_.push_back(point);
        pixels_.push_back(static_cast<int>(pixel));
      } else {  // a finite double may become an infinite float, and floats are written
        drop(Drop::not_finite);
      }
    }
  }
  if (with_normals) make_normals(frame);
}

/// Columns of a row that nothing but depth and confidence drops, into kept_; returns their number. A branch
/// on confidences could not be predicted, so there is none: integers are compared, and what is kept is noted
/// before it is counted.
std::size_t FramePoints::keep_plain(const FrameMaps& frame, int y) {
  const std::size_t row = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_);
  const float* const depth = frame.depth.data() + row;
  const float* const confidence = frame.confidence.data() + row;
  uint8_t* const keeps = keeps_.data();
  const int begin = frame.view.begin_x, end = frame.view.end_x;
  const uint32_t threshold = least_key_;
  uint32_t not_finite = 0;
  for (int x = begin; x < end; ++x) {
    const uint32_t finite = is_finite(depth[x]) & is_finite(confidence[x]);
    keeps[x] = static_cast<uint8_t>(finite & (ordered_key(confidence[x]) >= threshold ? 1U : 0U));
    not_finite += 1 - finite;
  }
  std::size_t kept = 0;
  for (int x = begin; x < end; ++x) {
    kept_[kept] = x;
    kept += keeps[x];
  }
  dropped_[static_cast<std::size_t>(Drop::not_finite)] += not_finite;
  return kept;
}

void FramePoints::make_normals(const FrameMaps& frame) {
  const Eigen::Vector3f eye =
      frame.camera ? Eigen::Vector3f(frame.camera->center().cast<float>()) : Eigen::Vector3f::Zero();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const int x = pixels_[i] % width_, y = pixels_[i] / width_;
    normals_.push_back(surface_normal({points_[i], point_at(frame, x - 1, y), point_at(frame, x + 1, y),
                                       point_at(frame, x, y - 1), point_at(frame, x, y + 1)},
                                      eye));
  }
}

double FramePoints::depth_of(const Eigen::Vector3f& point) const {
  const Eigen::Vector3d exact = point.cast<double>();  // as an expression, it is added in another order
  return axis_.head<3>().dot(exact) + axis_[3];
}

void FramePoints::read_depth(const FrameMaps& frame) {
  axis_ = Eigen::RowVector4d(0, 0, 1, 0);
  if (frame.camera) {
    const Camera& camera = *frame.camera;
    axis_ = camera.cam_from_world.matrix().row(2);
    rotation_ = camera.cam_from_world.linear();
    translation_ = camera.cam_from_world.translation();
    camera_ = &camera;
    across_.resize(static_cast<std::size_t>(width_));
    down_.resize(static_cast<std::size_t>(height_));
    for (int x = 0; x < width_; ++x)
      across_[static_cast<std::size_t>(x)] = (x - camera.k(0, 2)) / camera.k(0, 0);
    for (int y = 0; y < height_; ++y)
      down_[static_cast<std::size_t>(y)] = (y - camera.k(1, 2)) / camera.k(1, 1);
  }
  if (frame.points.empty() && options_.depth_edge <= 0) return;  // frame.depth will do
  depth_.resize(frame.confidence.size());
  if (frame.points.empty()) {
    std::ranges::copy(frame.depth, depth_.begin());
    return;
  }
  for (std::size_t i = 0; i < depth_.size(); ++i) {
    const Eigen::Map<const Eigen::Vector3f> point(&frame.points[3 * i]);
    depth_[i] = axis_.head<3>().dot(point.cast<double>()) + axis_[3];
  }
}

bool FramePoints::is_background(const FrameMaps& frame, std::size_t pixel) const {
  const std::size_t plane = frame.confidence.size();
  const int r = frame.rgb[pixel], g = frame.rgb[plane + pixel], b = frame.rgb[2 * plane + pixel];
  return (options_.mask_black && r + g + b < kBlackBelowSum) ||
         (options_.mask_white && r > kWhiteAbove && g > kWhiteAbove && b > kWhiteAbove);
}

bool FramePoints::is_edge(int x, int y) const {
  const auto at = [&](int column, int row) {
    return depth_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                  static_cast<std::size_t>(column)];
  };
  double low = at(x, y), high = low;
  for (int row = std::max(0, y - 1); row <= std::min(height_ - 1, y + 1); ++row) {
    for (int column = std::max(0, x - 1); column <= std::min(width_ - 1, x + 1); ++column) {
      const double neighbor = at(column, row);
      if (!std::isfinite(neighbor)) continue;
      low = std::min(low, neighbor);
      high = std::max(high, neighbor);
    }
  }
  return high - low > options_.depth_edge * std::abs(at(x, y));
}

/// Not finite where the frame shows nothing.
Eigen::Vector3f FramePoints::point_at(const FrameMaps& frame, int x, int y) const {
  const FrameView& view = frame.view;
  if (x < view.begin_x || x >= view.end_x || y < view.begin_y || y >= view.end_y)
    return Eigen::Vector3f::Constant(std::numeric_limits<float>::quiet_NaN());
  const auto pixel =
      static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  if (frame.points.empty()) return unproject(x, y, frame.depth[pixel]);
  return Eigen::Map<const Eigen::Vector3f>(&frame.points[3 * pixel]);
}

Eigen::Vector3f FramePoints::unproject(int x, int y, double depth) const {
  Eigen::Vector3d in_camera(across_[static_cast<std::size_t>(x)] * depth,
                            down_[static_cast<std::size_t>(y)] * depth, depth);
  if (camera_->is_distorted()) in_camera = depth * camera_->ray({x, y});
  return (rotation_.transpose() * (in_camera - translation_)).cast<float>();
}

}  // namespace vggt
