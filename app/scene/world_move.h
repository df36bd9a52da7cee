#pragma once
#include <Eigen/Geometry>
#include <optional>
#include <vector>

#include "app/scene/dense_maps.h"
#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

// A Sim(3) moves points to scale·rotation·point + translation. Depths grow by the scale.

double scale_of(const Eigen::Affine3d& similarity);
/// The camera that sees the moved points where `camera` sees the points.
Camera moved(const Eigen::Affine3d& similarity, Camera camera);
/// All that are valid.
void move_cameras(const Eigen::Affine3d& similarity, std::vector<Camera>& cameras);
void move_tracks(const Eigen::Affine3d& similarity, std::vector<Track>& tracks);

/// Depth of frames [0, frames), as far as there is any.
void scale_depth(DenseMaps& depth, int frames, double scale);

/// Which way is down, as far as cameras tell it.
struct DownGuess {
  Eigen::Vector3d down;        // of length 1, in world
  double median_tilt_deg = 0;  // of the cameras' horizontal axes out of the level
};
/// People hold cameras level: down is the direction that the horizontal axes of the valid cameras are most
/// nearly perpendicular to, on the side where the images' bottoms are. Cameras that are tilted by more than
/// 30° against the others do not count. Where all axes are parallel, what they leave open is decided by where
/// the images' bottoms are. Nothing where there is no valid camera, or where the images' bottoms have no
/// common side.
std::optional<DownGuess> guess_down(const std::vector<Camera>& cameras);

/// The smallest turn of the world, about its origin, after which `down` is +y.
Eigen::Affine3d turn_upright(const Eigen::Vector3d& down);

}  // namespace vggt
