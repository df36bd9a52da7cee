#include "io/frames/image_writer.h"

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <ostream>
#include <vector>

#include "io/files/atomic_file.h"

namespace vggt {

void write_image(const std::filesystem::path& path, int width, int height, std::span<const uint8_t> rgb) {
  cv::Mat bgr(height, width, CV_8UC3);
  for (std::size_t i = 0; i < rgb.size(); ++i) bgr.data[i] = rgb[i / 3 * 3 + 2 - i % 3];
  constexpr int kQuality = 92;
  std::vector<uint8_t> bytes;
  cv::imencode(path.extension().string(), bgr, bytes, {cv::IMWRITE_JPEG_QUALITY, kQuality});
  write_atomically(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
}

}  // namespace vggt
