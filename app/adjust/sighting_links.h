#pragma once
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// How many sightings each pair of frames has that has some.
using PairSightings = std::map<std::pair<int, int>, int>;
PairSightings sightings_of_pairs(const Bundle& bundle);

/// The pairs of frames that have at least so many sightings.
std::vector<std::pair<int, int>> matched_pairs(const PairSightings& pairs, int fewest = 1);

/// Of each group the sightings between two of its frames, and those between one of them and another group's.
struct GroupSightings {
  int inside = 0, across = 0;
};
std::vector<GroupSightings> sightings_of_groups(const PairSightings& pairs,
                                                const std::vector<std::vector<int>>& groups);

/// How many sightings a pair of frames that has some has (median).
int usual_sightings(const PairSightings& pairs);

/// Groups of two and more frames that these pairs link; empty where there is one.
std::vector<std::vector<int>> groups_of(std::size_t frames, const std::vector<std::pair<int, int>>& pairs);

/// How many sightings each frame has a part in.
std::vector<std::size_t> sightings_of_frames(const Bundle& bundle);

}  // namespace vggt
