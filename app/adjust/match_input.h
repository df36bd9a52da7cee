#pragma once
#include <Eigen/Geometry>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/scene/frame_points.h"
#include "io/files/host_storage.h"
#include "io/frames/frames.h"

namespace vggt {

/// One frame as it is matched.
struct MatchFrame {
  FrameView view;  // of the network's image
  PixelMap map;    // of the network's pixels to the original's
  int original_width = 0, original_height = 0;
  int gray_width = 0, gray_height = 0;  // of the gray copy of the original; 0: there is none
  std::string camera;                   // by EXIF; frames of another one are of another camera
  /// Where another one is given: the focal length that pose and depth belong to, in pixels of the original;
  /// 0: that of the camera.
  double guessed_focal = 0;
  /// Where another one is given: the pose that the network saw, in a world of the depth maps' scale.
  std::optional<Eigen::Isometry3d> guessed_pose = {};
};

/// Pixels of the original that a pixel of the compared image shows.
inline double compared_pixel(const MatchFrame& frame) {
  return frame.gray_width > 0 ? static_cast<double>(frame.original_width) / frame.gray_width
                              : 1 / frame.map.scale_x;
}

/// Frames as they are matched. Functions may be called from several threads.
struct MatchInput {
  int width = 0, height = 0;  // of the network's images
  std::vector<MatchFrame> frames;
  ReadRgb read_rgb;  // of the network's images
  /// Of the gray copies, [gray_height,gray_width]; empty where there are none.
  std::function<void(std::size_t frame, std::span<uint8_t> gray)> read_gray;
  ReadMask read_mask = {};  // which of the network's pixels may be matched; empty: all
  /// Where the images lie that frames are compared by, and depth maps while they are corrected.
  std::shared_ptr<HostSpace> space = std::make_shared<HostSpace>();
};

}  // namespace vggt
