#pragma once
#include <Eigen/Core>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace vggt {

/// One camera of a file that tells where cameras stood.
struct FramePose {
  std::string file;              // as spelt there; empty: frames have no names
  std::optional<double> time_s;  // nothing: frames have no times
  bool valid = true;             // false: a frame without a pose
  Eigen::Matrix4d world_from_cam = Eigen::Matrix4d::Identity();  // rotation and translation, OpenCV axes
  std::optional<double> fov_x_rad;
};

/// COLMAP's images.txt, with or without its lines of observations; the fields of view are read from
/// cameras.txt beside it where there is one (distortion is not looked at).
/// Throws std::invalid_argument naming path and line, std::system_error if it cannot be read.
std::vector<FramePose> read_colmap_images(const std::filesystem::path& path);
/// transforms.json as of NeRF and nerfstudio (`frames`; world_from_cam, OpenGL axes), or what
/// write_cameras_json() writes (`cameras`). Throws as read_colmap_images(), naming the entry.
std::vector<FramePose> read_pose_json(const std::filesystem::path& path);
/// A TUM trajectory: times, no names. Throws as read_colmap_images().
std::vector<FramePose> read_tum_poses(const std::filesystem::path& path);

/// The 4×4 matrix with a rotation nearest to that of `matrix`.
/// Throws std::invalid_argument (without a path) if it is none within a hundredth, or not finite.
Eigen::Matrix4d rigid(const Eigen::Matrix4d& matrix);

}  // namespace vggt
