#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/files/atomic_file.h"
#include "io/frames/frames.h"

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
  bool valid = true;  // false: no finite pose or field of view; it gives no points
};

/// One camera pose as a line of a TUM trajectory.
struct TumPose {
  double time_s = 0;
  Eigen::Matrix4d world_from_cam;
};

/// The camera matrix of the upright original image that a network-size camera matrix stands for.
Eigen::Matrix3d original_intrinsics(const Eigen::Matrix3d& k_network, const PixelMap& map);

/// Binary little-endian PLY: x y z float, red green blue uchar. Throws std::invalid_argument naming the path
/// if a point is not finite or colours and points differ in number; std::system_error if it cannot be
/// written.
void write_ply(const std::filesystem::path& path, const PointCloud& cloud);
/// The vertices of a PLY file, ASCII or binary; other properties and elements are passed over.
/// Throws std::invalid_argument naming the path: no PLY, no x y z, a point that is not finite, an end that is
/// missing; std::system_error if it cannot be read.
std::vector<Eigen::Vector3d> read_ply_points(const std::filesystem::path& path);
/// {"cameras": [{file, time_s, valid, original_size [w,h], network_size, k_original 3×3, k_network,
/// cam_from_world 4×4, mean_confidence}]}, matrices as rows, OpenCV axes. A number that is not finite is
/// null.
void write_cameras_json(const std::filesystem::path& path, const std::vector<SceneCamera>& cameras);
/// world_from_cam as lines "t x y z qx qy qz qw" (unit quaternion, qw >= 0; every digit of a double); cameras
/// that are not valid are left out. Throws std::invalid_argument if a valid one holds a value that is not
/// finite.
void write_tum(const std::filesystem::path& path, const std::vector<SceneCamera>& cameras);
/// Blank lines and lines after # are skipped; quaternions are normalised.
/// Throws std::invalid_argument naming path and line, std::system_error if it cannot be read.
std::vector<TumPose> read_tum(const std::filesystem::path& path);

/// One point per voxel of this side (world units) with the average position and colour, by Open3D.
/// Throws std::invalid_argument: a side that is not positive, or too small for Open3D's integer grid; points
/// that are not finite; colours that differ in number.
PointCloud voxel_downsample(const PointCloud& cloud, double voxel_size);
/// Drops points whose mean distance to their neighbours is above the average by std_ratio deviations, by
/// Open3D. Returns the cloud as it is where that says nothing: no more points than neighbours, or all
/// distances equal. Throws std::invalid_argument: options that are not positive, points that are not finite.
PointCloud remove_outliers(const PointCloud& cloud, int neighbors, double std_ratio);
/// How far each point of `from` is from the nearest of `to` (at least one), by Open3D's k-d tree.
std::vector<double> nearest_distances(const std::vector<Eigen::Vector3d>& from,
                                      const std::vector<Eigen::Vector3d>& to);

}  // namespace vggt
