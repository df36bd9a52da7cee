#pragma once
#include <Eigen/Geometry>
#include <optional>
#include <string>
#include <string_view>

#include "io/frames/pixel_map.h"

namespace vggt {

/// Which intrinsics a camera has, as COLMAP's models of these names: one focal length or, with pinhole, two;
/// the principal point; with simple_radial k1, with radial k1 and k2.
enum class CameraModel { simple_pinhole, pinhole, simple_radial, radial };

/// COLMAP's name of a model, such as "SIMPLE_RADIAL".
std::string_view colmap_name(CameraModel model);
/// The model of one of COLMAP's names, in any case and with - for _; nothing for other names.
std::optional<CameraModel> camera_model_named(std::string_view name);

/// A camera: where it stood, and how it maps onto the pixels of an image. Pixel centres lie at integers, so
/// the image reaches from -0.5 to width - 0.5. A point (x, y, z) of the camera's space shows at k·(d·x/z,
/// d·y/z, 1) with d = 1 + k1·r² + k2·r⁴ and r² = (x² + y²)/z²: COLMAP's RADIAL, which is pinhole where k1 =
/// k2 = 0.
struct Camera {
  Eigen::Isometry3d cam_from_world = Eigen::Isometry3d::Identity();  // OpenCV axes: x right, y down, z ahead
  Eigen::Matrix3d k = Eigen::Matrix3d::Identity();                   // pixels of the image of width × height
  Eigen::Vector2d distortion = Eigen::Vector2d::Zero();              // k1, k2
  int width = 0, height = 0;                                         // 0: not known
  PixelMap map;                                 // of this image's pixels to those of the upright original
  int original_width = 0, original_height = 0;  // pixels; 0: not known
  CameraModel model = CameraModel::pinhole;     // whose parameters k and distortion are
  int camera_id = -1;                           // frames of one number share their intrinsics; -1: with none
  bool has_whole_lens = true;                   // false: the image is distorted by more than is known here
  bool valid = true;                            // false: no finite pose, or no field of view above 0

  bool has_intrinsics() const { return width > 0; }
  bool is_distorted() const { return !distortion.isZero(0); }
  /// Where a point of the camera's space with z > 0 shows, pixels.
  Eigen::Vector2d project(const Eigen::Vector3d& point_in_camera) const;
  /// The point (x, y, 1) of the camera's space that shows at a pixel. Not finite where the distortion maps no
  /// point there.
  Eigen::Vector3d ray(const Eigen::Vector2d& pixel) const;
  /// World coordinates of the projection centre.
  Eigen::Vector3d center() const;
  /// The camera matrix in pixels of the upright original.
  Eigen::Matrix3d k_original() const;
  /// The horizontal field of view, radians, of an image with the principal point in its middle, or what it
  /// were without distortion; nothing without intrinsics, and where the distortion shows nothing at the
  /// image's sides.
  std::optional<double> fov_x_rad(bool undistorted = false) const;
};

/// A camera and the frame that it belongs to.
struct FrameCamera {
  std::string file = {};              // as spelt where it comes from; empty: frames have no names
  std::optional<double> time_s = {};  // nothing: frames have no times
  Camera camera = {};
  double mean_confidence = 0;
  int quarter_turns = 0;   // clockwise, from the image as its file stores it to the upright one
  bool as_stored = false;  // the camera is that of the image as its file stores it, as COLMAP's are
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
