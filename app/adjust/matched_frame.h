#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/image_store.h"
#include "app/adjust/match_input.h"
#include "app/scene/dense_maps.h"

namespace vggt {

/// The inverse depth around an anchor.
struct DepthPlane {
  float inverse_depth = 0;
  Eigen::Vector2f slope = Eigen::Vector2f::Zero();  // by pixels of the original
};

/// A frame while it is matched: its depth, its mask and, where asked for, its images, each where it lies or
/// read into memory. The input, the maps and the images outlive it. Throws what reading them throws.
class MatchedFrame {
 public:
  MatchedFrame(const MatchInput& input, const DenseMaps& depth, const ImageStore* images, std::size_t frame);
  MatchedFrame(const MatchedFrame&) = delete;
  MatchedFrame& operator=(const MatchedFrame&) = delete;

  const std::vector<ImageLevel>& images() const { return images_; }
  const MatchFrame& own() const { return own_; }
  /// The depth map as OpenCV's matrix, which is only read from.
  cv::Mat depth() const;

  // Pixels are those of the upright original.
  float depth_at(const Eigen::Vector2d& pixel) const;
  /// Whether the network's image shows the pixel, by a margin of network pixels from its border.
  bool shows(const Eigen::Vector2d& pixel, double margin) const;
  /// Whether the frame's mask leaves a pixel that the network's image shows.
  bool used(const Eigen::Vector2d& pixel) const;
  /// The plane through an anchor's own depth that is nearest to the map up to `radius` pixels away.
  DepthPlane plane_at(const Anchor& anchor, double radius) const;

 private:
  const MatchFrame& own_;
  int width_, height_;
  DenseMaps::Buffer depth_buffer_, image_buffer_;
  std::vector<uint8_t> mask_;  // [H,W]; empty: all pixels are used
  std::span<const float> depth_;
  std::vector<ImageLevel> images_;
};

/// Whether the network's image of a frame shows a pixel of the original, as MatchedFrame::shows().
bool shows(const MatchFrame& frame, const Eigen::Vector2d& pixel, double margin);

/// A depth map reduced to every fourth value in both directions: enough to tell what is hidden when partners
/// are chosen. Those of all frames are held in memory.
class DepthSketch {
 public:
  DepthSketch() = default;
  explicit DepthSketch(const MatchedFrame& frame);
  /// At a pixel of the original that the network's image shows.
  float depth_at(const Eigen::Vector2d& pixel) const;

 private:
  cv::Mat values_;  // [H/4,W/4], 2×2 at least
  PixelMap map_;    // of the network's pixels
};

}  // namespace vggt
