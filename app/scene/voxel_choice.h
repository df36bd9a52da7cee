#pragma once
#include <cstdint>
#include <vector>

#include "app/scene/scene_builder.h"

namespace vggt {

/// A choice of at most `most` of a scene's points that thins them evenly: space is cut into equal cubes, and
/// of each cube the most confident point stays (of equal ones the first). The cubes are as small as `most`
/// allows. The points are made again several times, and never held: while it chooses, it takes about 16 to 32
/// bytes for each point of `most`, then a bit for each point of the scene.
class VoxelChoice {
 public:
  /// The builder has finished, with more points than `most` and some median depth. Throws what its check_stop
  /// throws.
  VoxelChoice(const SceneBuilder& builder, const BuiltScene& scene, int64_t most);

  bool operator()(int64_t index) const {
    return kept_[static_cast<std::size_t>(index / 64)] >> index % 64 & 1;
  }
  /// The side of the cubes, world units.
  double side() const { return side_; }

 private:
  std::vector<uint64_t> kept_;  // a bit for each point
  double side_ = 0;
};

}  // namespace vggt
