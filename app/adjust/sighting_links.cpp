#include "app/adjust/sighting_links.h"

#include <algorithm>
#include <span>

#include "app/scene/linked_frames.h"
#include "app/scene/median.h"

namespace vggt {

PairSightings sightings_of_pairs(const Bundle& bundle) {
  PairSightings counts;
  for (const Sighting& sighting : bundle.sightings)
    ++counts[std::minmax(sighting.frame, bundle.anchors[static_cast<std::size_t>(sighting.anchor)].frame)];
  return counts;
}

int usual_sightings(const PairSightings& pairs) {
  std::vector<double> counts;
  for (const auto& [pair, count] : pairs) counts.push_back(count);
  return counts.empty() ? 0 : static_cast<int>(median(std::span(counts)));
}

std::vector<GroupSightings> sightings_of_groups(const PairSightings& pairs,
                                                const std::vector<std::vector<int>>& groups) {
  std::map<int, std::size_t> group_of;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const int frame : groups[group]) group_of[frame] = group;
  }
  std::vector<GroupSightings> result(groups.size());
  for (const auto& [pair, count] : pairs) {
    const auto a = group_of.find(pair.first), b = group_of.find(pair.second);
    if (a == group_of.end() || b == group_of.end()) continue;
    if (a->second == b->second) {
      result[a->second].inside += count;
    } else {
      result[a->second].across += count;
      result[b->second].across += count;
    }
  }
  return result;
}

std::vector<std::pair<int, int>> matched_pairs(const PairSightings& pairs, int fewest) {
  std::vector<std::pair<int, int>> matched;
  for (const auto& [pair, count] : pairs) {
    if (count >= fewest) matched.push_back(pair);
  }
  return matched;
}

std::vector<std::vector<int>> groups_of(std::size_t frames, const std::vector<std::pair<int, int>>& pairs) {
  const std::vector<int> group = first_linked(frames, pairs);
  std::map<int, std::vector<int>> members;
  for (std::size_t i = 0; i < frames; ++i) members[group[i]].push_back(static_cast<int>(i));
  std::vector<std::vector<int>> groups;
  for (auto& [number, own] : members) {
    if (own.size() > 1) groups.push_back(std::move(own));
  }
  if (groups.size() < 2) groups.clear();
  return groups;
}

std::vector<std::size_t> sightings_of_frames(const Bundle& bundle) {
  std::vector<std::size_t> counts(bundle.poses.size(), 0);
  for (const Sighting& sighting : bundle.sightings) {
    ++counts[static_cast<std::size_t>(sighting.frame)];
    ++counts[static_cast<std::size_t>(bundle.anchors[static_cast<std::size_t>(sighting.anchor)].frame)];
  }
  return counts;
}

}  // namespace vggt
