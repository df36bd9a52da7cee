#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "app/scene/scene_builder.h"

namespace vggt {

/// Drops points whose mean distance to `neighbors` others is more than `std_ratio` deviations above the
/// average.
struct OutlierFilter {
  int neighbors = 20;
  double std_ratio = 2;
};

struct CloudFilters {
  double voxel = 0;                       // side of a voxel as a share of the median depth; 0: off
  std::optional<OutlierFilter> outliers;  // nothing: off
  int64_t max_points = 0;                 // 0: all
  int64_t seed = 0;
};

/// At most `max_points` points, in their order. The choice depends on the seed and each point's index only.
PointCloud choose_points(const PointCloud& cloud, int64_t max_points, int64_t seed);

/// Applies voxels, outliers and choice, in this order; what each left is added to scene.filters.
void filter_cloud(BuiltScene& scene, const CloudFilters& filters);

}  // namespace vggt
