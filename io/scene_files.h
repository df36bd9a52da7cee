#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/atomic_file.h"

namespace vggt {

/// A cloud of coloured points in world coordinates (camera 0 at the origin).
struct PointCloud {
  std::vector<Eigen::Vector3f> points;
  std::vector<Eigen::Matrix<uint8_t, 3, 1>> colors;  // rgb
};

struct SceneCamera {
  std::string file;
  double time_s = 0;
  int network_width = 0, network_height = 0, original_width = 0, original_height = 0;
  Eigen::Matrix3d k_network, k_original;  // pixels
  Eigen::Matrix4d cam_from_world;         // OpenCV axes
  double mean_confidence = 0;
  bool valid = true;                      // false: no finite pose or field of view; it gives no points
};

/// One camera pose as a line of a TUM trajectory.
struct TumPose {
  double time_s = 0;
  Eigen::Matrix4d world_from_cam;
};

void write_ply(const std::filesystem::path& path, const PointCloud& cloud);  // binary, x y z float, rgb uchar
void write_cameras_json(const std::filesystem::path& path, const std::vector<SceneCamera>& cameras);
void write_tum(const std::filesystem::path& path, const std::vector<SceneCamera>& cameras);
/// Throws std::invalid_argument naming path and line.
std::vector<TumPose> read_tum(const std::filesystem::path& path);

/// One point per voxel of this side (world units), by Open3D.
PointCloud voxel_downsample(const PointCloud& cloud, double voxel_size);
/// Drops points whose mean distance to their neighbours is above the average by std_ratio deviations, by Open3D.
PointCloud remove_outliers(const PointCloud& cloud, int neighbors, double std_ratio);

}  // namespace vggt
