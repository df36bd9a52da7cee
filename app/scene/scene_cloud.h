#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "app/scene/scene_builder.h"
#include "app/scene/scene_filters.h"
#include "app/scene/voxel_choice.h"
#include "io/scene/point_cloud.h"

namespace vggt {

/// What the filters leave of a scene's points. They are held in memory only where voxels, outliers or the
/// caller need all of them at once; else they are made again, frame by frame, when they are written. Points
/// are thinned evenly before voxels, outliers and choice.
class SceneCloud {
 public:
  /// The builder has finished and outlives the cloud. What each filter left is added to scene.filters.
  SceneCloud(const SceneBuilder& builder, const CloudFilters& filters, bool in_memory, BuiltScene& scene);

  int64_t size() const { return size_; }
  /// The side of the cubes by which the points were thinned evenly, world units; nothing where they were not.
  std::optional<double> thinned_by() const;
  /// The points, if the constructor was asked for them.
  const PointCloud& in_memory() const { return held_.value(); }
  /// The same, given away; the cloud is not used afterwards.
  PointCloud take() { return std::move(held_).value(); }
  /// At most `most` of the points, evenly among them and always the same, for a view of the whole.
  PointCloud sample(int64_t most) const;
  /// Writes a PLY; throws as PlyWriter, and what the builder's check_stop throws.
  void write(const std::filesystem::path& path) const;

 private:
  /// Calls take(first, points) with parts of the chosen points, from several threads and in any order;
  /// `first` is the number of a part's first point.
  void each_part(const std::function<void(int64_t first, const PointCloud& points)>& take) const;
  PointCloud all_parts() const;
  bool is_chosen(int64_t index) const { return thinned_ ? (*thinned_)(index) : choice_(index); }

  const SceneBuilder& builder_;
  PointChoice choice_;
  std::optional<VoxelChoice> thinned_;
  std::vector<int64_t> first_chosen_;  // of each frame, and their number: [S+1]
  int64_t size_ = 0;
  std::optional<PointCloud> held_;
};

/// The cloud. Where its points must be held at once and memory runs out, they are thinned to a quarter of
/// their number first, again where these are too many: filters.thin_to says to how many, and thinning(points,
/// at_most) is called each time. Throws std::bad_alloc where fewer than 100,000 do not fit.
SceneCloud cloud_within_memory(const SceneBuilder& builder, CloudFilters& filters, bool in_memory,
                               BuiltScene& scene,
                               const std::function<void(int64_t points, int64_t at_most)>& thinning);

}  // namespace vggt
