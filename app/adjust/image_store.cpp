#include "app/adjust/image_store.h"

#include <cstdint>
#include <span>

namespace vggt {

void ImageStore::put(std::size_t frame, const std::vector<ImageLevel>& levels) {
  std::vector<uint8_t> all;
  shapes_[frame].clear();
  for (const ImageLevel& level : levels) {
    shapes_[frame].push_back({level.image.size(), level.map});
    for (int row = 0; row < level.image.rows; ++row) {
      const auto* values = level.image.ptr<uint8_t>(row);
      all.insert(all.end(), values, values + level.image.cols);
    }
  }
  pixels_.put(frame, std::as_bytes(std::span(all)));
}

std::vector<ImageLevel> ImageStore::get(std::size_t frame, std::vector<std::byte>& buffer) const {
  std::vector<ImageLevel> levels;
  if (shapes_[frame].empty()) return levels;
  const std::byte* at = pixels_.get(frame, buffer).data();
  for (const Shape& shape : shapes_[frame]) {
    auto* pixels = const_cast<std::byte*>(at);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
    levels.push_back({cv::Mat(shape.size, CV_8U, pixels), shape.map});
    at += shape.size.area();
  }
  return levels;
}

}  // namespace vggt
