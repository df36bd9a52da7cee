#include "app/scene/predicted_cameras.h"

#include <cmath>
#include <cstddef>
#include <numbers>

namespace vggt {
namespace {

using PoseEncoding =
    Eigen::Matrix<float, 9, 1>;  // translation, quaternion xyzw, fields of view: height, width
using Extrinsic = Eigen::Matrix<float, 3, 4, Eigen::RowMajor>;
using Intrinsic = Eigen::Matrix<float, 3, 3, Eigen::RowMajor>;

bool is_angle(float value) {
  return value > 0 && value < std::numbers::pi_v<float>;
}

float fov_rad(int size, double focal) {
  return static_cast<float>(2 * std::atan(size / 2.0 / focal));
}

}  // namespace

std::vector<Camera> cameras_from(const float* pose_enc, const float* extrinsic, const float* intrinsic,
                                 int frames, int width, int height) {
  std::vector<Camera> cameras(static_cast<std::size_t>(frames));
  for (std::size_t s = 0; s < cameras.size(); ++s) {
    const Eigen::Map<const PoseEncoding> pose(pose_enc + 9 * s);
    const Eigen::Map<const Extrinsic> cam_from_world(extrinsic + 12 * s);
    const Eigen::Map<const Intrinsic> k(intrinsic + 9 * s);
    Camera& camera = cameras[s];
    camera.width = width;
    camera.height = height;
    camera.valid = is_angle(pose[7]) && is_angle(pose[8]) && pose.allFinite() && cam_from_world.allFinite() &&
                   k.allFinite();
    if (!camera.valid) continue;
    camera.cam_from_world.affine() = cam_from_world.cast<double>();
    // A rotation to float's digits only: far from the origin a centre would be off by what is missing.
    camera.cam_from_world.linear() =
        Eigen::Quaterniond(Eigen::Matrix3d(camera.cam_from_world.linear())).normalized().toRotationMatrix();
    camera.k = k.cast<double>();
  }
  return cameras;
}

void store_cameras(const std::vector<Camera>& cameras, float* pose_enc, float* extrinsic, float* intrinsic) {
  for (std::size_t s = 0; s < cameras.size(); ++s) {
    const Camera& camera = cameras[s];
    if (!camera.valid) continue;
    const Eigen::Quaterniond turn(Eigen::Matrix3d(camera.cam_from_world.linear()));
    Eigen::Map<PoseEncoding> pose(pose_enc + 9 * s);
    pose.head<3>() = camera.cam_from_world.translation().cast<float>();
    pose.segment<4>(3) = turn.coeffs().cast<float>();
    pose[7] = fov_rad(camera.height, camera.k(1, 1));
    pose[8] = fov_rad(camera.width, camera.k(0, 0));
    Eigen::Map<Extrinsic>{extrinsic + 12 * s} = camera.cam_from_world.affine().cast<float>();
    Eigen::Map<Intrinsic>{intrinsic + 9 * s} = camera.k.cast<float>();
  }
}

}  // namespace vggt
