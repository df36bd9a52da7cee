#include "app/adjust/matched_frame.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>

#include "app/scene/pixel_transfer.h"

namespace vggt {
namespace {

constexpr int kSketchStep = 4;  // network pixels

}  // namespace

MatchedFrame::MatchedFrame(const MatchInput& input, const DenseMaps& depth, const ImageStore* images,
                           std::size_t frame)
    : own_(input.frames[frame]), width_(input.width), height_(input.height) {
  depth_ = depth.values(static_cast<int>(frame), depth_buffer_);
  if (input.read_mask) {
    mask_.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
    input.read_mask(frame, mask_);
  }
  if (images) images_ = images->get(frame, image_buffer_);
}

cv::Mat MatchedFrame::depth() const {
  return {height_, width_, CV_32F,
          const_cast<float*>(depth_.data())};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

float MatchedFrame::depth_at(const Eigen::Vector2d& pixel) const {
  return interpolated(depth_.data(), height_, width_, static_cast<float>(own_.map.network_x(pixel.x())),
                      static_cast<float>(own_.map.network_y(pixel.y())));
}

bool MatchedFrame::shows(const Eigen::Vector2d& pixel, double margin) const {
  return vggt::shows(own_, pixel, margin);
}

bool MatchedFrame::used(const Eigen::Vector2d& pixel) const {
  if (mask_.empty()) return true;
  const auto row = std::lround(own_.map.network_y(pixel.y())),
             column = std::lround(own_.map.network_x(pixel.x()));
  return mask_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
               static_cast<std::size_t>(column)] != 0;
}

DepthPlane MatchedFrame::plane_at(const Anchor& anchor, double radius) const {
  constexpr int kHalf = 2;
  constexpr double kSamePlane = 0.1, kSteepest = 0.5;
  const double inverse = std::exp(-anchor.log_depth);
  const float here = depth_at(anchor.pixel);
  Eigen::Matrix2d products = Eigen::Matrix2d::Zero();
  Eigen::Vector2d sums = Eigen::Vector2d::Zero();
  const double step = std::max(radius / kHalf, 1 / own_.map.scale_x);
  for (int row = -kHalf; row <= kHalf; ++row) {
    for (int column = -kHalf; column <= kHalf; ++column) {
      const Eigen::Vector2d offset(step * column, step * row);
      if (!shows(anchor.pixel + offset, 0)) continue;
      const double change = here / depth_at(anchor.pixel + offset) - 1;
      if (!(std::abs(change) < kSamePlane)) continue;
      products += offset * offset.transpose();
      sums += change * offset;
    }
  }
  DepthPlane plane{static_cast<float>(inverse), Eigen::Vector2f::Zero()};
  if (!(products.determinant() > 0)) return plane;
  const Eigen::Vector2d slope = products.inverse() * sums;
  if (slope.norm() * step * kHalf < kSteepest) plane.slope = (inverse * slope).cast<float>();
  return plane;
}

bool shows(const MatchFrame& frame, const Eigen::Vector2d& pixel, double margin) {
  const double x = frame.map.network_x(pixel.x()), y = frame.map.network_y(pixel.y());
  return x > frame.view.begin_x + margin && x < frame.view.end_x - 1 - margin &&
         y > frame.view.begin_y + margin && y < frame.view.end_y - 1 - margin;
}

DepthSketch::DepthSketch(const MatchedFrame& frame) : map_(frame.own().map) {
  const cv::Mat depth = frame.depth();
  values_.create(std::max(2, (depth.rows + kSketchStep - 1) / kSketchStep),
                 std::max(2, (depth.cols + kSketchStep - 1) / kSketchStep), CV_32F);
  for (int row = 0; row < values_.rows; ++row) {
    const auto* from = depth.ptr<float>(std::min(kSketchStep * row, depth.rows - 1));
    for (int column = 0; column < values_.cols; ++column)
      values_.at<float>(row, column) = from[std::min(kSketchStep * column, depth.cols - 1)];
  }
}

float DepthSketch::depth_at(const Eigen::Vector2d& pixel) const {
  const double x = std::min(map_.network_x(pixel.x()) / kSketchStep, values_.cols - 1.0),
               y = std::min(map_.network_y(pixel.y()) / kSketchStep, values_.rows - 1.0);
  return interpolated(values_.ptr<float>(), values_.rows, values_.cols, static_cast<float>(x),
                      static_cast<float>(y));
}

}  // namespace vggt
