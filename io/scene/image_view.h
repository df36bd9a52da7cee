#pragma once
#include <Eigen/Core>

#include "io/scene/camera.h"

namespace vggt {

/// How the image that an export names is made of the upright original: turned, as its file stores it, or
/// freed of its camera's distortion (size and camera matrix stay as they are).
struct ImageView {
  int quarter_turns = 0;  // clockwise, from the exported image to the upright one: 0 to 3
  bool undistorted = false;
};

/// The camera of the upright original: its pixels are those of the file, and its map is none.
Camera original_camera(const Camera& camera);

/// The camera of an image that is turned clockwise. With intrinsics its size must be known.
Camera turned_clockwise(Camera camera, int quarter_turns);

/// Whether a pixel, or a place between two, lies on an image of this size; NaN does not.
inline bool is_on_image(const Eigen::Vector2d& pixel, int width, int height) {
  return pixel.x() >= -.5 && pixel.y() >= -.5 && pixel.x() <= width - .5 && pixel.y() <= height - .5;
}

/// Maps pixels of the upright original, of this camera, to those of the exported image and back; pixel
/// centres at integers.
class ViewedImage {
 public:
  /// Throws std::logic_error for a camera without original size.
  ViewedImage(const Camera& camera, const ImageView& view);

  /// The camera of the exported image, turned with it, in its pixels.
  const Camera& camera() const { return exported_; }
  /// Not finite where the distortion shows nothing.
  Eigen::Vector2d from_original(const Eigen::Vector2d& pixel) const;
  /// Not finite where the exported image shows what the original's distortion cannot.
  Eigen::Vector2d to_original(const Eigen::Vector2d& pixel) const;

 private:
  Camera original_, exported_;
  int quarter_turns_;
  bool undistorted_;
  double most_r2_;  // beyond this x² + y² at z = 1 the distortion folds back
};

}  // namespace vggt
