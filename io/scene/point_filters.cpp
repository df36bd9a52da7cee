#include "io/scene/point_filters.h"

#include <open3d/geometry/PointCloud.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

namespace vggt {
namespace {

void check_cloud(const PointCloud& cloud) {
  if (cloud.points.size() != cloud.colors.size()) {
    throw std::invalid_argument("point cloud: " + std::to_string(cloud.points.size()) + " points but " +
                                std::to_string(cloud.colors.size()) + " colors");
  }
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    if (!cloud.points[i].allFinite()) {
      throw std::invalid_argument("point cloud: point " + std::to_string(i) + " is not finite");
    }
  }
}

open3d::geometry::PointCloud to_open3d(const PointCloud& cloud, bool with_colors) {
  open3d::geometry::PointCloud result;
  result.points_.reserve(cloud.points.size());
  for (const auto& point : cloud.points) result.points_.push_back(point.cast<double>());
  if (!with_colors) return result;
  result.colors_.reserve(cloud.colors.size());
  for (const auto& color : cloud.colors) result.colors_.push_back(color.cast<double>());
  for (const auto& normal : cloud.normals) result.normals_.push_back(normal.cast<double>());
  return result;
}

// Open3D numbers voxels with ints, which would overflow.
void check_voxel_size(const open3d::geometry::PointCloud& cloud, double voxel_size) {
  const double extent = (cloud.GetMaxBound() - cloud.GetMinBound()).maxCoeff();
  if (extent / voxel_size < static_cast<double>(std::numeric_limits<int>::max() / 2)) return;
  std::ostringstream text;
  text << "voxel: a side of " << voxel_size << " is too small for a scene of extent " << extent;
  throw std::invalid_argument(text.str());
}

}  // namespace

PointCloud voxel_downsample(const PointCloud& cloud, double voxel_size) {
  if (!(voxel_size > 0) || !std::isfinite(voxel_size)) {
    throw std::invalid_argument("voxel size: must be positive, not " + std::to_string(voxel_size));
  }
  check_cloud(cloud);
  if (cloud.points.empty()) return {};
  const open3d::geometry::PointCloud dense = to_open3d(cloud, true);
  check_voxel_size(dense, voxel_size);
  const auto sparse = dense.VoxelDownSample(voxel_size);
  PointCloud result;
  result.points.reserve(sparse->points_.size());
  result.colors.reserve(sparse->points_.size());
  for (const auto& point : sparse->points_) result.points.push_back(point.cast<float>());
  for (const auto& color : sparse->colors_) {
    result.colors.push_back(color.array().round().min(255).max(0).matrix().cast<uint8_t>());
  }
  for (const Eigen::Vector3d& normal : sparse->normals_) {
    const Eigen::Vector3d unit = normal.stableNormalized();  // those of a voxel may cancel each other
    result.normals.push_back(unit.isZero() ? Eigen::Vector3f(0, 0, -1) : Eigen::Vector3f(unit.cast<float>()));
  }
  return result;
}

PointCloud remove_outliers(const PointCloud& cloud, int neighbors, double std_ratio) {
  if (neighbors < 1)
    throw std::invalid_argument("outlier neighbors: must be positive, not " + std::to_string(neighbors));
  if (!(std_ratio > 0) || !std::isfinite(std_ratio)) {
    throw std::invalid_argument("outlier ratio: must be positive, not " + std::to_string(std_ratio));
  }
  check_cloud(cloud);
  if (cloud.points.size() <= static_cast<std::size_t>(neighbors)) return cloud;
  const auto kept = std::get<1>(
      to_open3d(cloud, false).RemoveStatisticalOutliers(static_cast<std::size_t>(neighbors), std_ratio));
  if (kept.empty()) return cloud;  // equal distances: none is below Open3D's limit
  PointCloud result;
  result.points.reserve(kept.size());
  result.colors.reserve(kept.size());
  for (const std::size_t i : kept) result.add(cloud, i);
  return result;
}

std::vector<double> nearest_distances(const std::vector<Eigen::Vector3d>& from,
                                      const std::vector<Eigen::Vector3d>& to) {
  return open3d::geometry::PointCloud(from).ComputePointCloudDistance(open3d::geometry::PointCloud(to));
}

}  // namespace vggt
