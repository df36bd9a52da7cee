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
  int64_t thin_to = 0;  // more points are thinned evenly (voxel_choice.h); 0: never; not with max_points
};

/// Bytes of memory that a point takes while these filters work, or where all points are kept for the caller
/// (in_memory), at most; 0: the points are not held.
int64_t bytes_of_a_point(const CloudFilters& filters, bool in_memory, bool normals);
/// Of these, with voxels, what a voxel takes: points share voxels.
int64_t bytes_of_a_voxel(bool normals);

/// A choice of at most `max_points` of `count` points. It depends on the seed and each point's index only,
/// and takes no memory.
class PointChoice {
 public:
  PointChoice(int64_t count, int64_t max_points, int64_t seed);
  bool operator()(int64_t index) const;
  bool all() const { return !last_key_; }

 private:
  uint64_t key(int64_t index) const;

  uint64_t seed_;                     // mixed
  std::optional<uint64_t> last_key_;  // of the chosen points; nothing: all are chosen
};

/// At most `max_points` points, in their order.
PointCloud choose_points(const PointCloud& cloud, int64_t max_points, int64_t seed);

/// Applies voxels, outliers and choice, in this order; what each left is added to scene.filters.
void filter_cloud(PointCloud& cloud, const CloudFilters& filters, BuiltScene& scene);

}  // namespace vggt
