#include "app/report/thumbnails.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <opencv2/imgproc.hpp>

#include "io/frames/image_writer.h"

namespace vggt {
namespace {

constexpr int kQuality = 78;
constexpr double kBytesPerPixel = 0.3, kHeaderBytes = 650;  // of a JPEG of this quality
constexpr int kLargestSide = 448, kSmallestSide = 24;

/// The size of one picture.
cv::Size picture_size(const MapReaders& input, int panels, int64_t budget_bytes, int shown) {
  const double bytes = static_cast<double>(budget_bytes) / shown;
  const double pixels = std::max(0.0, bytes - kHeaderBytes) / (kBytesPerPixel * panels);
  const double longer = std::max(input.width, input.height), shorter = std::min(input.width, input.height);
  const double side = std::clamp<double>(std::sqrt(pixels * longer / shorter), kSmallestSide, kLargestSide);
  const double scale = std::min(1.0, side / longer);
  return {std::max(1, static_cast<int>(std::lround(scale * input.width))),
          std::max(1, static_cast<int>(std::lround(scale * input.height)))};
}

/// From which value to which the colours reach.
struct Range {
  float low = 0, high = 1;
};

/// Between the 2nd and the 98th percentile of what is known.
Range range_of(const std::vector<float>& values) {
  std::vector<float> known;
  for (std::size_t i = 0; i < values.size(); i += 7) {
    if (std::isfinite(values[i])) known.push_back(values[i]);
  }
  if (known.empty()) return {};
  const auto at = [&](double share) {
    const auto place =
        known.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(known.size() - 1));
    std::ranges::nth_element(known, place);
    return *place;
  };
  const float low = at(0.02), high = at(0.98);
  return {low, high > low ? high : low + 1};
}

/// A map in colours, bgr; gray where it is not known. near_is_bright: by the inverse of the values.
cv::Mat colored(std::vector<float>& values, int width, int height, bool inverse, int colors) {
  if (inverse) {
    for (float& value : values) value = value > 0 ? 1 / value : std::numeric_limits<float>::quiet_NaN();
  }
  const Range range = range_of(values);
  cv::Mat levels(height, width, CV_8UC1), known(height, width, CV_8UC1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_known = std::isfinite(values[i]);
    const float share = is_known ? (values[i] - range.low) / (range.high - range.low) : 0;
    levels.data[i] = static_cast<uint8_t>(std::lround(255 * std::clamp(share, 0.0F, 1.0F)));
    known.data[i] = is_known ? 255 : 0;
  }
  cv::Mat image;
  cv::applyColorMap(levels, image, colors);
  image.setTo(cv::Scalar(96, 96, 96), known == 0);
  return image;
}

cv::Mat image_of(const std::vector<uint8_t>& planes, int width, int height) {
  cv::Mat image(height, width, CV_8UC3);
  const std::size_t plane = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) image.data[3 * i + c] = planes[(2 - c) * plane + i];
  }
  return image;
}

std::vector<uint8_t> thumbnail(const MapReaders& input, int frame, int panels, const cv::Size& size) {
  const std::size_t pixels = static_cast<std::size_t>(input.width) * static_cast<std::size_t>(input.height);
  std::vector<uint8_t> rgb(3 * pixels);
  input.read_rgb(static_cast<std::size_t>(frame), rgb);
  std::vector<cv::Mat> pictures = {image_of(rgb, input.width, input.height)};
  if (panels > 1) {
    std::vector<float> values(pixels);
    input.read_depth(frame, values);
    pictures.push_back(colored(values, input.width, input.height, true, cv::COLORMAP_INFERNO));
    input.read_confidence(frame, values);
    pictures.push_back(colored(values, input.width, input.height, false, cv::COLORMAP_VIRIDIS));
  }
  cv::Mat strip(size.height, panels * size.width, CV_8UC3);
  for (int k = 0; k < panels; ++k) {
    cv::Mat place = strip(cv::Rect(k * size.width, 0, size.width, size.height));
    cv::resize(pictures[static_cast<std::size_t>(k)], place, size, 0, 0, cv::INTER_AREA);
  }
  cv::cvtColor(strip, strip, cv::COLOR_BGR2RGB);
  return encode_jpeg(strip.cols, strip.rows, {strip.data, 3 * strip.total()}, kQuality);
}

}  // namespace

Thumbnails make_thumbnails(const MapReaders& input, const FrameWork& work, int64_t budget_bytes, int most) {
  const int frames = static_cast<int>(input.views.size()), shown = std::min(frames, most);
  Thumbnails result;
  result.panels = input.read_depth ? 3 : 1;
  result.jpegs.resize(input.views.size());
  if (shown == 0) return result;
  const cv::Size size = picture_size(input, result.panels, budget_bytes, shown);
  result.width = size.width;
  result.height = size.height;
  for_each_frame(work, shown, [&](int i, int) {
    const int frame = shown == 1 ? 0 : static_cast<int>(static_cast<int64_t>(i) * (frames - 1) / (shown - 1));
    result.jpegs[static_cast<std::size_t>(frame)] = thumbnail(input, frame, result.panels, size);
  });
  return result;
}

}  // namespace vggt
