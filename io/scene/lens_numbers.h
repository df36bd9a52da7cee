#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/scene/camera.h"

namespace vggt {

/// How much of a camera's lens a reader must understand.
enum class LensReading {
  as_far_as_known,  // of models that Camera does not have, the size, the focal lengths and the principal
                    // point
  whole             // such models are refused
};

/// A lens as other programs give it: OpenCV's numbers, the principal point from the image's corner.
struct LensNumbers {
  double width = 0, height = 0, fx = 0, fy = 0;  // pixels; height 0: not known
  std::optional<double> cx = {}, cy = {};        // nothing: the middle
  double k1 = 0, k2 = 0;
  std::string beyond = {};                // what Camera has no numbers for, such as "p1"; empty: nothing
  std::optional<CameraModel> model = {};  // as which they are given; nothing: the one that they need
};

/// Whether two focal lengths differ by rounding alone.
bool is_one_focal(double fx, double fy);

/// Gives the camera size, k, distortion and model: the one that the numbers need where the given one has not
/// all of them. Throws std::invalid_argument (without a path) for numbers that are no lens, and for a lens
/// that is to be read whole and that none of Camera's models is.
void set_lens(Camera& camera, const LensNumbers& lens, LensReading reading);

/// The numbers of one of COLMAP's models (any case) and its parameters. Of a model that is not known, all
/// but the first parameter are left out, and `beyond` names it. Throws std::invalid_argument (without a path)
/// where there are too few or too many.
LensNumbers colmap_lens(std::string_view model, double width, double height, std::span<const double> numbers);

}  // namespace vggt
