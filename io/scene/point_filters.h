#pragma once
#include <vector>

#include "io/scene/point_cloud.h"

namespace vggt {

/// One point for each voxel of this side (world units), with the average position, colour and normal of its
/// points, by Open3D. Throws std::invalid_argument: a side that is not positive, or too small for Open3D's
/// integer grid; points that are not finite; colours that differ in number.
PointCloud voxel_downsample(const PointCloud& cloud, double voxel_size);
/// Drops points whose mean distance to their neighbours is more than std_ratio standard deviations above the
/// average, by Open3D. Returns the cloud as it is where this rule has no answer: no more points than
/// neighbours, or all distances equal. Throws std::invalid_argument: options that are not positive, points
/// that are not finite.
PointCloud remove_outliers(const PointCloud& cloud, int neighbors, double std_ratio);
/// How far each point of `from` is from the nearest of `to` (at least one), by Open3D's k-d tree.
std::vector<double> nearest_distances(const std::vector<Eigen::Vector3d>& from,
                                      const std::vector<Eigen::Vector3d>& to);

}  // namespace vggt
