#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>

namespace vggt {

// Images [H,W] of one channel, and square windows in them, as the image matcher compares them.
constexpr int kWindow = 21;  // pixels: a window's side

/// Brightness, 0 to 255, fp32, of colours [3,H,W].
cv::Mat gray_of(std::span<const uint8_t> rgb, int height, int width);
/// Differences from the local mean over the local deviation, 8 bits: exposure and shading do not matter.
cv::Mat normalised(const cv::Mat& gray);
/// Means over each pixel's window of the products of slopes: xx, xy, yy, [H,W,3].
cv::Mat structure_of(const cv::Mat& image);
/// How well a pixel can be found again: the strength of its corner, weakened at edges of depth and 0 where
/// there is no depth.
cv::Mat corner_strength(const cv::Mat& gray, const cv::Mat& depth);
/// Normalised cross-correlation of two small squares in 8-bit images; -1 where one leaves its image.
float correlation(const cv::Mat& a, const cv::Point2f& at_a, const cv::Mat& b, const cv::Point2f& at_b);
/// The mean square of what two windows differ by, less their means.
double noise_between(const cv::Mat& a, const cv::Point2f& at_a, const cv::Mat& b, const cv::Point2f& at_b);
/// The whitening of a match: what least squares say of a window with this structure and noise (variance), in
/// an image where a step to the right and a step down become these vectors.
Eigen::Matrix2d whitening_of(const cv::Vec3f& products, double noise, const cv::Point2f& right,
                             const cv::Point2f& below);

}  // namespace vggt
