#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "io/frames/pixel_map.h"

namespace vggt {

// Images [H,W] of one channel, and square windows in them, as the image matcher compares them.

/// Brightness, 0 to 255, 8 bits, of colours [3,H,W].
cv::Mat gray_of(std::span<const uint8_t> rgb, int height, int width);
/// How well a pixel of a gray image can be found again: the strength of its corner.
cv::Mat corner_strength(const cv::Mat& gray);
/// Where depth changes much within a few pixels, or is missing: 255, else 0.
cv::Mat depth_edges(const cv::Mat& depth);

/// An image at one of several sizes, as differences from the local mean over the local deviation, 8 bits:
/// exposure and shading do not matter.
struct ImageLevel {
  cv::Mat image;
  PixelMap map;  // of its pixels to those of the original
};

/// A frame's image at its own size, a half, a quarter and so on, until the longer side is below a hundred
/// pixels.
std::vector<ImageLevel> image_levels(cv::Mat gray, PixelMap map);

/// Where an image shows the surroundings of an anchor: offsets from it, in pixels of the anchor's original,
/// to pixels of the other original. Affine, or as a plane in space is seen through a lens.
struct PatchWarp {
  Eigen::Vector3f at;                 // of the anchor itself, in the other camera's space
  Eigen::Matrix<float, 3, 2> slopes;  // by the offset
  Eigen::Vector2f focal = Eigen::Vector2f::Ones(), centre = Eigen::Vector2f::Zero();
  Eigen::Vector2f distortion = Eigen::Vector2f::Zero();

  Eigen::Vector2f operator()(const Eigen::Vector2f& offset) const {
    const Eigen::Vector3f seen = at + slopes * offset;
    const Eigen::Vector2f normal = seen.head<2>() / seen.z();
    const float r2 = normal.squaredNorm();
    return (1 + r2 * (distortion[0] + r2 * distortion[1])) * normal.cwiseProduct(focal) + centre;
  }
  Eigen::Matrix2f jacobian() const;

  static PatchWarp affine(const Eigen::Vector2f& at, const Eigen::Matrix2f& slopes);
};

/// Where a patch was found.
struct FoundPatch {
  Eigen::Vector2f pixel = Eigen::Vector2f::Zero(),
                  shift = Eigen::Vector2f::Zero();       // of the originals: there, here
  Eigen::Matrix2d covariance = Eigen::Matrix2d::Zero();  // of `pixel`, as least squares say
  float correlation = -1;  // of the windows, from -1 to 1; -1: nothing was found
};

/// Which levels of the image in which the anchor lies are compared, from coarse to fine.
struct LevelRange {
  int coarsest = 0, finest = 0;
};

/// Looks for a window around a pixel of one original in another image, from where `warp` sees it on: finds
/// the shift for which both windows, each less its mean and over its deviation, differ least (Lucas and
/// Kanade's method), on one level after the other. Of the other image the level is taken whose pixels are
/// about as large.
FoundPatch find_patch(const std::vector<ImageLevel>& here, const Eigen::Vector2f& pixel,
                      const std::vector<ImageLevel>& there, const PatchWarp& warp, LevelRange levels);

}  // namespace vggt
