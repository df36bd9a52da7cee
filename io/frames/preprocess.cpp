#include "io/frames/preprocess.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "io/frames/resize.h"

namespace vggt {
namespace {

constexpr uint8_t kWhite = 255;

// Pillow's alpha_composite over opaque white, in Pillow's fixed point: 7 bits beyond the 8 of the result.
uint8_t over_white(uint32_t value, uint32_t alpha) {
  const uint32_t sum = value * (alpha * 128) + 255u * ((255 - alpha) * 128) + (0x80u << 7);
  return static_cast<uint8_t>((((sum >> 8) + sum) >> 8) >> 7);
}

// The 8 bits that Pillow keeps of a value of an image with colour.
inline uint8_t high_byte(uint8_t value) {
  return value;
}
inline uint8_t high_byte(uint16_t value) {
  return static_cast<uint8_t>(value >> 8);
}

template <typename T>
void gray_row(const T* row, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x) {
    const T value = std::clamp<T>(row[x], T{0}, T{255});
    const uint8_t gray = value == value ? static_cast<uint8_t>(value) : 0;  // NaN: 0
    rgb[3 * x] = rgb[3 * x + 1] = rgb[3 * x + 2] = gray;
  }
}

template <typename T, int kChannels>
void color_row(const T* row, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) rgb[3 * x + c] = high_byte(row[kChannels * x + 2 - c]);
  }
}

template <typename T>
void alpha_row(const T* row, int width, Alpha alpha, uint8_t* rgb) {
  if (alpha == Alpha::drop) return color_row<T, 4>(row, width, rgb);
  for (int x = 0; x < width; ++x) {
    const uint8_t opacity = high_byte(row[4 * x + 3]);
    for (int c = 0; c < 3; ++c) {
      const uint8_t value = high_byte(row[4 * x + 2 - c]);
      rgb[3 * x + c] = alpha == Alpha::on_white ? over_white(value, opacity)
                                                : static_cast<uint8_t>(std::min(255, value + 255 - opacity));
    }
  }
}

// n rounded to a multiple of the patch, in Python's order of operations and with its half to even.
int64_t round_to_patch(double n, int patch) {
  return static_cast<int64_t>(std::nearbyint(n / patch)) * patch;
}

/// An image's size after resizing and cropping, and how it comes about.
struct Resized {
  ResizeTarget target;
  FittedImage frame;
};

Resized resized(int w, int h, Fit fit, int width, int patch_size) {
  const bool tall = fit != Fit::crop && h > w;
  const double scale = static_cast<double>(width) / (tall ? h : w);
  const int64_t other = round_to_patch((tall ? w : h) * scale, patch_size);
  if (other == 0) {
    throw std::invalid_argument("has " + std::to_string(w) + "x" + std::to_string(h) + " pixels: the " +
                                (tall ? "width" : "height") + " rounds to 0 at network size");
  }
  Resized result;
  ResizeTarget& target = result.target;
  target.width = tall ? static_cast<int>(other) : width;
  target.height = tall ? width : other;
  target.rows = static_cast<int>(std::min<int64_t>(target.height, width));
  target.first_row = (target.height - target.rows) / 2;
  FittedImage& frame = result.frame;
  frame.width = target.width;
  frame.height = target.rows;
  frame.map.scale_x = static_cast<double>(target.width) / w;
  frame.map.scale_y = static_cast<double>(target.height) / h;
  frame.map.pad_y = -static_cast<double>(target.first_row);
  return result;
}

/// Size and map after the padding, which it returns.
Padding pad_to_square(FittedImage& frame, int side) {
  const Padding padding{frame.width, frame.height, side, side};
  frame.width = frame.height = side;
  frame.map.pad_x += padding.left();
  frame.map.pad_y += padding.top();
  return padding;
}

}  // namespace

void rgb_row(const DecodedImage& image, int y, uint8_t* rgb) {
  const cv::Mat& pixels = image.pixels;
  const int width = pixels.cols;
  switch (pixels.type()) {
    case CV_8UC1:
      return gray_row(pixels.ptr<uint8_t>(y), width, rgb);
    case CV_16UC1:
      return gray_row(pixels.ptr<uint16_t>(y), width, rgb);
    case CV_32SC1:
      return gray_row(pixels.ptr<int32_t>(y), width, rgb);
    case CV_32FC1:
      return gray_row(pixels.ptr<float>(y), width, rgb);
    case CV_8UC3:
      return color_row<uint8_t, 3>(pixels.ptr<uint8_t>(y), width, rgb);
    case CV_16UC3:
      return color_row<uint16_t, 3>(pixels.ptr<uint16_t>(y), width, rgb);
    case CV_8UC4:
      return alpha_row(pixels.ptr<uint8_t>(y), width, image.alpha, rgb);
    case CV_16UC4:
      return alpha_row(pixels.ptr<uint16_t>(y), width, image.alpha, rgb);
    default:
      throw std::invalid_argument("has a pixel type that is not supported");
  }
}

bool is_clipped(const DecodedImage& image) {
  if (image.pixels.channels() != 1 || image.pixels.depth() == CV_8U) return false;
  double most = 0;
  cv::minMaxLoc(image.pixels, nullptr, &most);
  return most > 255;
}

FittedImage fit_size(int width, int height, Fit fit, int network_width, int patch_size) {
  FittedImage result = resized(width, height, fit, network_width, patch_size).frame;
  if (fit == Fit::pad) pad_to_square(result, network_width);
  return result;
}

FittedImage fit_image(const DecodedImage& image, Fit fit, int width, int patch_size) {
  const int w = image.pixels.cols, h = image.pixels.rows;
  auto [target, result] = resized(w, h, fit, width, patch_size);
  result.rgb = resize_bicubic(
      w, h, [&](int y, uint8_t* rgb) { rgb_row(image, y, rgb); }, target);
  if (fit == Fit::pad) {
    const Padding padding = pad_to_square(result, width);
    std::vector<uint8_t> padded(std::size_t{3} * width * width);
    padding.fill(result.rgb.data(), padded.data());
    result.rgb = std::move(padded);
  }
  return result;
}

GrayImage gray_copy(const DecodedImage& image, int side, std::size_t pixels) {
  const int w = image.pixels.cols, h = image.pixels.rows;
  const double area = static_cast<double>(w) * h,
               scale = std::min({1.0, static_cast<double>(side) / std::max(w, h),
                                 std::sqrt(static_cast<double>(pixels) / area)});
  cv::Mat gray(h, w, CV_8U);
  std::vector<uint8_t> rgb(3 * static_cast<std::size_t>(w));
  for (int y = 0; y < h; ++y) {
    rgb_row(image, y, rgb.data());
    auto* row = gray.ptr<uint8_t>(y);
    for (int x = 0; x < w; ++x)  // the weights of ITU-R BT.601, in 256ths
      row[x] =
          static_cast<uint8_t>((77 * rgb[3 * x] + 150 * rgb[3 * x + 1] + 29 * rgb[3 * x + 2] + 128) >> 8);
  }
  GrayImage result{std::max(1, static_cast<int>(w * scale)), std::max(1, static_cast<int>(h * scale)), {}};
  result.pixels.resize(static_cast<std::size_t>(result.width) * static_cast<std::size_t>(result.height));
  cv::Mat reduced(result.height, result.width, CV_8U, result.pixels.data());
  if (scale < 1) {
    cv::resize(gray, reduced, reduced.size(), 0, 0, cv::INTER_AREA);
  } else {
    gray.copyTo(reduced);
  }
  return result;
}

void Padding::fill(const uint8_t* planes, uint8_t* padded) const {
  const auto from = static_cast<std::size_t>(width), to = static_cast<std::size_t>(padded_width);
  std::fill_n(padded, 3 * to * static_cast<std::size_t>(padded_height), kWhite);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < height; ++y) {
      std::copy_n(planes + static_cast<std::size_t>(c * height + y) * from, width,
                  padded + static_cast<std::size_t>(c * padded_height + top() + y) * to + left());
    }
  }
}

}  // namespace vggt
