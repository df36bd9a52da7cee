#pragma once
#include <Eigen/Geometry>
#include <optional>
#include <string>

#include "io/frames/pixel_map.h"

namespace vggt {

/// A pinhole camera: where it stood, and how it maps onto the pixels of an image. Pixel centres lie at
/// integers, so the image reaches from -0.5 to width - 0.5.
struct Camera {
  Eigen::Isometry3d cam_from_world = Eigen::Isometry3d::Identity();  // OpenCV axes: x right, y down, z ahead
  Eigen::Matrix3d k = Eigen::Matrix3d::Identity();                   // pixels of the image of width × height
  int width = 0, height = 0;                                         // 0: not known
  PixelMap map;                                 // of this image's pixels to those of the upright original
  int original_width = 0, original_height = 0;  // pixels; 0: not known
  bool valid = true;                            // false: no finite pose, or no field of view above 0

  bool has_intrinsics() const { return width > 0; }
  /// World coordinates of the projection centre.
  Eigen::Vector3d center() const;
  /// The camera matrix in pixels of the upright original.
  Eigen::Matrix3d k_original() const;
  /// The horizontal field of view, radians; nothing without intrinsics.
  std::optional<double> fov_x_rad() const;
};

/// A camera and the frame that it belongs to.
struct FrameCamera {
  std::string file = {};              // as spelt where it comes from; empty: frames have no names
  std::optional<double> time_s = {};  // nothing: frames have no times
  Camera camera = {};
  double mean_confidence = 0;
};

/// Gives the camera square pixels and its principal point in the image's middle, as far as the size is known
/// (height 0: it is not). Throws std::invalid_argument (without a path) unless width and focal length
/// (pixels) are positive and the sizes whole numbers.
void set_simple_intrinsics(Camera& camera, double width, double height, double focal);

/// The pose with the rotation that is nearest to the upper left 3×3 part of `matrix`; its last row is
/// ignored. Throws std::invalid_argument (without a path) if that part is no rotation within a hundredth, or
/// if a number is not finite.
Eigen::Isometry3d nearest_pose(const Eigen::Matrix4d& matrix);

}  // namespace vggt
