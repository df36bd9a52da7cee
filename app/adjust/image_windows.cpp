#include "app/adjust/image_windows.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace vggt {
namespace {

constexpr float kEdge = 1.2F, kAtEdge = 0.05F;  // depths over 7 pixels that differ by more weaken a corner
constexpr double kNoiseSigma = 1.5;             // pixels of blur against noise
constexpr double kLocalSigma = 5, kLocalNoise = 5, kLocalGain = 40;  // of the normalised image
constexpr int kCorrelationRadius = 4;
constexpr double kNoiseArea = 20;     // pixels whose noise, after the blur, is one
constexpr double kLeastError = 0.3;   // pixels, of a match however clear the image
constexpr double kLeastSlope = 1e-3;  // mean square, of the normalised image

/// A square around a point between pixels, less its mean.
cv::Mat patch_of(const cv::Mat& image, const cv::Point2f& at, int side) {
  cv::Mat patch;
  cv::getRectSubPix(image, {side, side}, at, patch, CV_32F);
  patch -= cv::mean(patch);
  return patch;
}

}  // namespace

cv::Mat normalised(const cv::Mat& gray) {
  cv::Mat smooth, mean, square, result;
  cv::GaussianBlur(gray, smooth, {}, kNoiseSigma);
  cv::GaussianBlur(smooth, mean, {}, kLocalSigma);
  cv::GaussianBlur(smooth.mul(smooth), square, {}, kLocalSigma);
  cv::Mat deviation = cv::max(square - mean.mul(mean), 0) + kLocalNoise * kLocalNoise;
  cv::sqrt(deviation, deviation);
  cv::Mat((smooth - mean) / deviation).convertTo(result, CV_8U, kLocalGain, 128);
  return result;
}

cv::Mat gray_of(std::span<const uint8_t> rgb, int height, int width) {
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  cv::Mat gray(height, width, CV_32F);
  for (std::size_t i = 0; i < plane; ++i) {
    gray.ptr<float>()[i] = 0.299F * static_cast<float>(rgb[i]) +
                           0.587F * static_cast<float>(rgb[plane + i]) +
                           0.114F * static_cast<float>(rgb[2 * plane + i]);
  }
  return gray;
}

cv::Mat structure_of(const cv::Mat& image) {
  cv::Mat across, down, result;
  cv::Sobel(image, across, CV_32F, 1, 0, 3, 1.0 / 8);
  cv::Sobel(image, down, CV_32F, 0, 1, 3, 1.0 / 8);
  const std::vector<cv::Mat> products = {across.mul(across), across.mul(down), down.mul(down)};
  cv::merge(products, result);
  cv::boxFilter(result, result, -1, {kWindow, kWindow});
  return result;
}

Eigen::Matrix2d whitening_of(const cv::Vec3f& products, double noise, const cv::Point2f& right,
                             const cv::Point2f& below) {
  Eigen::Matrix2d structure, stretch;
  structure << products[0] + kLeastSlope, products[1], products[1], products[2] + kLeastSlope;
  stretch << right.x, below.x, right.y, below.y;
  const double variance = noise * kNoiseArea / (kWindow * kWindow);
  Eigen::Matrix2d covariance = stretch * (variance * structure.inverse()) * stretch.transpose();
  covariance.diagonal().array() += kLeastError * kLeastError;
  return covariance.llt().matrixL().solve(Eigen::Matrix2d::Identity());
}

cv::Mat corner_strength(const cv::Mat& gray, const cv::Mat& depth) {
  cv::Mat strength, nearest, farthest;
  cv::cornerMinEigenVal(gray, strength, 7, 3);
  const cv::Mat around = cv::Mat::ones(7, 7, CV_8U);
  cv::erode(depth, nearest, around);
  cv::dilate(depth, farthest, around);
  strength.setTo(0, ~(nearest > 0));
  cv::Mat weakened;
  strength.convertTo(weakened, CV_32F, kAtEdge);
  weakened.copyTo(strength, farthest > kEdge * nearest);
  return strength;
}

float correlation(const cv::Mat& a, const cv::Point2f& at_a, const cv::Mat& b, const cv::Point2f& at_b) {
  constexpr int kSide = 2 * kCorrelationRadius + 1;
  const auto inside = [](const cv::Mat& image, const cv::Point2f& p) {
    return p.x >= kCorrelationRadius && p.y >= kCorrelationRadius &&
           p.x <= static_cast<float>(image.cols - 1 - kCorrelationRadius) &&
           p.y <= static_cast<float>(image.rows - 1 - kCorrelationRadius);
  };
  if (!inside(a, at_a) || !inside(b, at_b)) return -1;
  const cv::Mat patch_a = patch_of(a, at_a, kSide), patch_b = patch_of(b, at_b, kSide);
  return static_cast<float>(patch_a.dot(patch_b) /
                            std::sqrt(patch_a.dot(patch_a) * patch_b.dot(patch_b) + 1e-3));
}

double noise_between(const cv::Mat& a, const cv::Point2f& at_a, const cv::Mat& b, const cv::Point2f& at_b) {
  return cv::norm(patch_of(a, at_a, kWindow), patch_of(b, at_b, kWindow), cv::NORM_L2SQR) /
         (kWindow * kWindow);
}

}  // namespace vggt
