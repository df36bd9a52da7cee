#pragma once
#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "app/adjust/image_windows.h"
#include "io/files/piece_store.h"

namespace vggt {

/// The images of frames at their several sizes: in memory or in the scratch folder, as the space has room.
/// Frames come in any order, from any thread.
class ImageStore {
 public:
  ImageStore(const std::shared_ptr<HostSpace>& space, std::size_t frames)
      : pixels_(space, "match_images"), shapes_(frames) {}

  void put(std::size_t frame, const std::vector<ImageLevel>& levels);
  /// Images whose pixels lie in the store or in the buffer; none of a frame that never came.
  std::vector<ImageLevel> get(std::size_t frame, std::vector<std::byte>& buffer) const;

 private:
  struct Shape {
    cv::Size size;
    PixelMap map;
  };

  PieceStore pixels_;
  std::vector<std::vector<Shape>> shapes_;
};

}  // namespace vggt
