#include "app/scene/world_move.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

/// The direction that the axes are most nearly perpendicular to, on the side of `bottom`.
Eigen::Vector3d perpendicular(const std::vector<Eigen::Vector3d>& axes, const Eigen::Vector3d& bottom) {
  // Axes within about 15° of one line leave a turn about it open.
  constexpr double kOneLine = 0.07;
  Eigen::Matrix3d spread = Eigen::Matrix3d::Zero();
  for (const Eigen::Vector3d& axis : axes)
    spread += axis * axis.transpose() / static_cast<double>(axes.size());
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d> eigen(spread);  // values in ascending order
  Eigen::Vector3d down = eigen.eigenvectors().col(0);
  if (eigen.eigenvalues()[1] < kOneLine) {
    const Eigen::Vector3d line = eigen.eigenvectors().col(2);
    down = bottom - line * line.dot(bottom);
  }
  return (down.dot(bottom) < 0 ? -down : down).normalized();
}

}  // namespace

double scale_of(const Eigen::Affine3d& similarity) {
  return std::cbrt(similarity.linear().determinant());
}

Camera moved(const Eigen::Affine3d& similarity, Camera camera) {
  const double scale = scale_of(similarity);
  const Eigen::Matrix3d rotation = similarity.linear() / scale;
  const Eigen::Matrix3d turn = camera.cam_from_world.linear() * rotation.transpose();
  camera.cam_from_world.translation() =
      scale * camera.cam_from_world.translation() - turn * similarity.translation();
  camera.cam_from_world.linear() = turn;
  return camera;
}

void move_cameras(const Eigen::Affine3d& similarity, std::vector<Camera>& cameras) {
  for (Camera& camera : cameras) {
    if (camera.valid) camera = moved(similarity, camera);
  }
}

void move_tracks(const Eigen::Affine3d& similarity, std::vector<Track>& tracks) {
  for (Track& track : tracks) track.point_in_world = similarity * track.point_in_world;
}

void scale_depth(DenseMaps& depth, int frames, double scale) {
  DenseMaps::Buffer buffer;
  for (int frame = 0; frame < frames; ++frame) {
    if (!depth.has(frame)) continue;
    const std::span<const float> old = depth.values(frame, buffer);
    std::vector<float> values(old.begin(), old.end());
    for (float& value : values) value *= static_cast<float>(scale);
    depth.put_values(frame, values);
  }
}

std::optional<DownGuess> guess_down(const std::vector<Camera>& cameras) {
  constexpr double kTilted = 30 * kDegree, kCommonSide = 0.2;
  constexpr int kRounds = 3;
  std::vector<Eigen::Vector3d> axes;
  Eigen::Vector3d bottom = Eigen::Vector3d::Zero();
  for (const Camera& camera : cameras) {
    if (!camera.valid) continue;
    axes.emplace_back(camera.cam_from_world.linear().row(0).transpose());
    bottom += camera.cam_from_world.linear().row(1).transpose();
  }
  if (axes.empty() || bottom.norm() < kCommonSide * static_cast<double>(axes.size())) return std::nullopt;
  DownGuess guess{perpendicular(axes, bottom), 0};
  const auto tilt = [&](const Eigen::Vector3d& axis) {
    return std::asin(std::min(1.0, std::abs(axis.dot(guess.down))));
  };
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Eigen::Vector3d> level;
    for (const Eigen::Vector3d& axis : axes) {
      if (tilt(axis) < kTilted) level.push_back(axis);
    }
    if (2 * level.size() < axes.size()) return std::nullopt;
    guess.down = perpendicular(level, bottom);
  }
  std::vector<double> tilts;
  for (const Eigen::Vector3d& axis : axes) tilts.push_back(tilt(axis) / kDegree);
  guess.median_tilt_deg = median(std::span(tilts));
  return guess;
}

Eigen::Affine3d turn_upright(const Eigen::Vector3d& down) {
  Eigen::Affine3d turn = Eigen::Affine3d::Identity();
  turn.linear() = Eigen::Quaterniond::FromTwoVectors(down, Eigen::Vector3d::UnitY()).toRotationMatrix();
  return turn;
}

}  // namespace vggt
