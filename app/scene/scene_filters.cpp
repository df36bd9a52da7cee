#include "app/scene/scene_filters.h"

#include "app/scene/mixed.h"
#include "app/scene/rank_search.h"
#include "io/scene/point_filters.h"

namespace vggt {

// Open3D's clouds are in double, its voxels are nodes of a hash table, its neighbours come from a k-d tree.
int64_t bytes_of_a_voxel(bool normals) {
  return normals ? 244 : 252;
}

int64_t bytes_of_a_point(const CloudFilters& filters, bool in_memory, bool normals) {
  const int64_t own = normals ? 27 : 15, open3d = normals ? 72 : 48;
  if (filters.voxel > 0) return 2 * own + open3d + bytes_of_a_voxel(normals);
  if (filters.outliers) return 2 * own + open3d + (normals ? 44 : 77);
  return in_memory ? 2 * own : 0;
}

PointChoice::PointChoice(int64_t count, int64_t max_points, int64_t seed)
    : seed_(mixed(static_cast<uint64_t>(seed))) {
  if (count <= max_points) return;
  RankSearch<uint64_t> search;
  search.want(max_points - 1, false);
  while (!search.done()) {
    auto tally = search.tally();
    for (int64_t i = 0; i < count; ++i) search.count(key(i), tally);
    search.end_pass(tally);
  }
  last_key_ = search.low();
}

uint64_t PointChoice::key(int64_t index) const {
  return mixed(seed_ ^ static_cast<uint64_t>(index));
}

bool PointChoice::operator()(int64_t index) const {
  return !last_key_ || key(index) <= *last_key_;
}

PointCloud choose_points(const PointCloud& cloud, int64_t max_points, int64_t seed) {
  const PointChoice chosen(static_cast<int64_t>(cloud.points.size()), max_points, seed);
  if (chosen.all()) return cloud;
  PointCloud result;
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    if (!chosen(static_cast<int64_t>(i))) continue;
    result.add(cloud, i);
  }
  return result;
}

void filter_cloud(PointCloud& cloud, const CloudFilters& filters, BuiltScene& scene) {
  const auto apply = [&](const char* name, auto&& filter) {
    const auto before = static_cast<int64_t>(cloud.points.size());
    if (before > 0) cloud = filter(cloud);
    scene.filters.push_back({name, before, static_cast<int64_t>(cloud.points.size())});
  };
  const double voxel_size = filters.voxel * scene.median_depth;
  if (filters.voxel > 0 && voxel_size > 0) {
    apply("voxel", [&](const PointCloud& all) { return voxel_downsample(all, voxel_size); });
  }
  if (filters.outliers) {
    apply("outliers", [&](const PointCloud& all) {
      return remove_outliers(all, filters.outliers->neighbors, filters.outliers->std_ratio);
    });
  }
  if (filters.max_points > 0) {
    apply("max points",
          [&](const PointCloud& all) { return choose_points(all, filters.max_points, filters.seed); });
  }
}

}  // namespace vggt
