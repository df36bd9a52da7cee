#include "app/scene/scene_filters.h"

#include <algorithm>
#include <numeric>

#include "io/scene/point_filters.h"

namespace vggt {
namespace {

/// A well mixed 64-bit number (splitmix64, Steele et al. 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

PointCloud choose_points(const PointCloud& cloud, int64_t max_points, int64_t seed) {
  const auto count = static_cast<std::size_t>(max_points);
  if (cloud.points.size() <= count) return cloud;
  const uint64_t mixed_seed = mixed(static_cast<uint64_t>(seed));
  std::vector<std::size_t> order(cloud.points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t index) { return mixed(mixed_seed ^ index); };
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(count), {}, key);
  order.resize(count);
  std::ranges::sort(order);
  PointCloud chosen;
  for (const std::size_t index : order) {
    chosen.points.push_back(cloud.points[index]);
    chosen.colors.push_back(cloud.colors[index]);
  }
  return chosen;
}

void filter_cloud(BuiltScene& scene, const CloudFilters& filters) {
  const auto apply = [&](const char* name, auto&& filter) {
    const auto before = static_cast<int64_t>(scene.cloud.points.size());
    if (before > 0) scene.cloud = filter(scene.cloud);
    scene.filters.push_back({name, before, static_cast<int64_t>(scene.cloud.points.size())});
  };
  const double voxel_size = filters.voxel * scene.median_depth;
  if (filters.voxel > 0 && voxel_size > 0) {
    apply("voxel", [&](const PointCloud& cloud) { return voxel_downsample(cloud, voxel_size); });
  }
  if (filters.outliers) {
    apply("outliers", [&](const PointCloud& cloud) {
      return remove_outliers(cloud, filters.outliers->neighbors, filters.outliers->std_ratio);
    });
  }
  if (filters.max_points > 0) {
    apply("max points",
          [&](const PointCloud& cloud) { return choose_points(cloud, filters.max_points, filters.seed); });
  }
}

}  // namespace vggt
