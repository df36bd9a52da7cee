#include "app/cli/bench_frames.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>

namespace vggt {
namespace {

using Eigen::Vector3d;

const Vector3d kHalfRoom(3, 1.5, 3);  // the room is [-3,3] × [-1.5,1.5] × [-3,3]

uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// A number in [0,1) of a cell of a wall.
double cell_value(int wall, int64_t u, int64_t v) {
  const uint32_t key =
      mixed(static_cast<uint32_t>(wall) + mixed(static_cast<uint32_t>(u) + mixed(static_cast<uint32_t>(v))));
  return key / 4294967296.0;
}

/// Noise between the values of cells of unit size.
double noise(int wall, double u, double v) {
  const double u0 = std::floor(u), v0 = std::floor(v), du = u - u0, dv = v - v0;
  const auto iu = static_cast<int64_t>(u0), iv = static_cast<int64_t>(v0);
  const double top = std::lerp(cell_value(wall, iu, iv), cell_value(wall, iu + 1, iv), du);
  const double bottom = std::lerp(cell_value(wall, iu, iv + 1), cell_value(wall, iu + 1, iv + 1), du);
  return std::lerp(top, bottom, dv);
}

/// Brightness in [0,1] of a place of a wall, metres: spots of several sizes.
double mottle(int wall, double u, double v) {
  return 0.4 * noise(wall, 3 * u, 3 * v) + 0.35 * noise(wall + 8, 11 * u, 11 * v) +
         0.25 * noise(wall + 16, 37 * u, 37 * v);
}

/// What a ray from inside the room meets: rgb in [0,1].
Vector3d seen(const Vector3d& eye, const Vector3d& ray) {
  const std::array<Vector3d, 3> tints = {Vector3d(0.9, 0.75, 0.6), Vector3d(0.6, 0.7, 0.65),
                                         Vector3d(0.65, 0.75, 0.95)};
  double nearest = INFINITY;
  int axis = 0;
  for (int i = 0; i < 3; ++i) {
    const double distance = (std::copysign(kHalfRoom[i], ray[i]) - eye[i]) / ray[i];
    if (!(distance < nearest)) continue;
    nearest = distance;
    axis = i;
  }
  const Vector3d place = eye + nearest * ray;
  const int wall = 2 * axis + (ray[axis] > 0 ? 1 : 0);
  return tints[static_cast<std::size_t>(axis)] * mottle(wall, place[(axis + 1) % 3], place[(axis + 2) % 3]);
}

}  // namespace

std::vector<uint8_t> room_picture(int width, int height, double t) {
  const Vector3d eye(-1.2 + 1.6 * t, 0.1 - 0.2 * t, -1.0 + 0.5 * t);
  const double turn = 0.75 - 0.3 * t, focal = 0.9 * width;  // radians about the vertical; pixels
  const Vector3d ahead(std::sin(turn), 0, std::cos(turn)), right(std::cos(turn), 0, -std::sin(turn));
  std::vector<uint8_t> rgb;
  rgb.reserve(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Vector3d ray = ahead + (x + 0.5 - width / 2.0) / focal * right +
                           (y + 0.5 - height / 2.0) / focal * Vector3d::UnitY();
      const Vector3d color = seen(eye, ray);
      for (int i = 0; i < 3; ++i)
        rgb.push_back(static_cast<uint8_t>(std::clamp(20 + 230 * color[i], 0.0, 255.0)));
    }
  }
  return rgb;
}

}  // namespace vggt
