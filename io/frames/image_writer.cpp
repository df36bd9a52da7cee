#include "io/frames/image_writer.h"

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/files/atomic_file.h"

namespace vggt {
namespace {

// Empty if the format cannot hold the image: a JPEG has at most 65500 pixels a side.
std::vector<uint8_t> encode(const std::string& extension, const cv::Mat& bgr, int jpeg_quality) try {
  std::vector<uint8_t> bytes;
  // Growing would double it; what is not written to costs nothing.
  const std::size_t raw = bgr.total() * bgr.elemSize();
  bytes.reserve(raw + raw / 64 + (1U << 16));
  if (!cv::imencode(extension, bgr, bytes, {cv::IMWRITE_JPEG_QUALITY, jpeg_quality})) bytes.clear();
  return bytes;
} catch (const cv::Exception&) {
  return {};
}

cv::Mat bgr_of(int width, int height, std::span<const uint8_t> rgb) {
  cv::Mat bgr(height, width, CV_8UC3);
  for (std::size_t i = 0; i < rgb.size(); ++i) bgr.data[i] = rgb[i / 3 * 3 + 2 - i % 3];
  return bgr;
}

std::invalid_argument refusal(const std::string& name, int width, int height) {
  return std::invalid_argument(name + ": an image of " + std::to_string(width) + "x" +
                               std::to_string(height) + " pixels cannot be written in this format");
}

}  // namespace

void write_image(const std::filesystem::path& path, int width, int height, std::vector<uint8_t> rgb,
                 int jpeg_quality) {
  for (std::size_t i = 0; i + 2 < rgb.size(); i += 3) std::swap(rgb[i], rgb[i + 2]);
  const cv::Mat bgr(height, width, CV_8UC3, rgb.data());
  const std::vector<uint8_t> bytes = encode(path.extension().string(), bgr, jpeg_quality);
  if (bytes.empty()) throw refusal(path.string(), width, height);
  write_atomically(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
}

std::vector<uint8_t> encode_jpeg(int width, int height, std::span<const uint8_t> rgb, int jpeg_quality) {
  std::vector<uint8_t> bytes = encode(".jpg", bgr_of(width, height, rgb), jpeg_quality);
  if (bytes.empty()) throw refusal("JPEG", width, height);
  return bytes;
}

}  // namespace vggt
