#include "app/scene/scene_cloud.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "app/scene/for_each_frame.h"
#include "io/scene/ply.h"

namespace vggt {

SceneCloud::SceneCloud(const SceneBuilder& builder, const CloudFilters& filters, bool in_memory,
                       BuiltScene& scene)
    : builder_(builder), choice_(scene.points, scene.points, filters.seed) {
  const bool whole = filters.voxel > 0 || filters.outliers;
  if (filters.thin_to > 0 && scene.points > filters.thin_to)
    thinned_.emplace(builder, scene, filters.thin_to);
  const bool choose = !whole && !thinned_ && filters.max_points > 0;
  if (choose) choice_ = PointChoice(scene.points, filters.max_points, filters.seed);
  const std::span<const int64_t> first = builder.first_points();
  first_chosen_.assign(first.begin(), first.end());
  if (thinned_ || !choice_.all()) {
    for_each_frame(builder.work(), static_cast<int>(first.size()) - 1, [&](int frame, int) {
      const auto f = static_cast<std::size_t>(frame);
      int64_t chosen = 0;
      for (int64_t i = first[f]; i < first[f + 1]; ++i) chosen += is_chosen(i);
      first_chosen_[f + 1] = chosen;
    });
    std::partial_sum(first_chosen_.begin(), first_chosen_.end(), first_chosen_.begin());
  }
  size_ = first_chosen_.back();
  if (thinned_) scene.filters.push_back({"thinned", scene.points, size_});
  if (choose) scene.filters.push_back({"max points", scene.points, size_});
  if (whole || in_memory) held_ = all_parts();
  if (!whole) return;
  filter_cloud(*held_, filters, scene);
  size_ = static_cast<int64_t>(held_->points.size());
}

std::optional<double> SceneCloud::thinned_by() const {
  return thinned_ ? std::optional(thinned_->side()) : std::nullopt;
}

void SceneCloud::each_part(const std::function<void(int64_t, const PointCloud&)>& take) const {
  builder_.for_each_frame_points([&](int frame, const PointCloud& points) {
    const auto f = static_cast<std::size_t>(frame);
    if (!thinned_ && choice_.all()) return take(first_chosen_[f], points);
    PointCloud chosen;
    for (std::size_t i = 0; i < points.points.size(); ++i) {
      if (!is_chosen(builder_.first_points()[f] + static_cast<int64_t>(i))) continue;
      chosen.add(points, i);
    }
    take(first_chosen_[f], chosen);
  });
}

PointCloud SceneCloud::all_parts() const {
  PointCloud cloud;
  cloud.points.resize(static_cast<std::size_t>(size_));
  cloud.colors.resize(static_cast<std::size_t>(size_));
  if (builder_.has_normals()) cloud.normals.resize(static_cast<std::size_t>(size_));
  each_part([&](int64_t first, const PointCloud& points) {
    std::ranges::copy(points.points, cloud.points.begin() + first);
    std::ranges::copy(points.colors, cloud.colors.begin() + first);
    std::ranges::copy(points.normals, cloud.normals.begin() + first);
  });
  return cloud;
}

PointCloud SceneCloud::sample(int64_t most) const {
  constexpr int64_t kSeed = 0;
  if (held_) return choose_points(*held_, most, kSeed);
  const PointChoice some(size_, most, kSeed);
  std::vector<int64_t> first_taken(1, 0);  // of each frame
  for (std::size_t frame = 0; frame + 1 < first_chosen_.size(); ++frame) {
    int64_t taken = 0;
    for (int64_t i = first_chosen_[frame]; i < first_chosen_[frame + 1]; ++i) taken += some(i);
    first_taken.push_back(first_taken.back() + taken);
  }
  PointCloud cloud;
  cloud.points.resize(static_cast<std::size_t>(first_taken.back()));
  cloud.colors.resize(cloud.points.size());
  each_part([&](int64_t first, const PointCloud& points) {
    const auto after = std::ranges::upper_bound(first_chosen_, first);
    auto place =
        static_cast<std::size_t>(first_taken[static_cast<std::size_t>(after - first_chosen_.begin() - 1)]);
    for (std::size_t i = 0; i < points.points.size(); ++i) {
      if (!some(first + static_cast<int64_t>(i))) continue;
      cloud.points[place] = points.points[i];
      cloud.colors[place++] = points.colors[i];
    }
  });
  return cloud;
}

void SceneCloud::write(const std::filesystem::path& path) const {
  if (held_) return write_ply(path, *held_);
  PlyWriter writer(path, size_, builder_.has_normals());
  each_part([&](int64_t first, const PointCloud& points) { writer.write(first, points); });
  writer.close();
}

SceneCloud cloud_within_memory(const SceneBuilder& builder, CloudFilters& filters, bool in_memory,
                               BuiltScene& scene,
                               const std::function<void(int64_t points, int64_t at_most)>& thinning) {
  constexpr int64_t kFewest = 100'000;
  for (;;) {
    BuiltScene tried = scene;
    try {
      SceneCloud cloud(builder, filters, in_memory, tried);
      scene = std::move(tried);
      return cloud;
    } catch (const std::bad_alloc&) {
      const bool whole = filters.voxel > 0 || filters.outliers;
      int64_t points = filters.thin_to > 0 ? std::min(filters.thin_to, scene.points) : scene.points;
      if (!whole && filters.max_points > 0) points = std::min(points, filters.max_points);
      if (!(whole || in_memory) || points < kFewest) throw;
      filters.thin_to = points / 4;
      thinning(points, filters.thin_to);
    }
  }
}

}  // namespace vggt
