#include "app/adjust/overlays.h"

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "app/scene/median.h"

namespace vggt {

double drop_overlays(const std::vector<Anchor>& anchors, std::vector<Sighting>& sightings) {
  constexpr double kStill = 0.75, kMoving = 6;  // pixels of the original
  constexpr std::size_t kFewestMoving = 8;
  constexpr int kFewestStill = 3;
  const auto anchor_of = [&](const Sighting& sighting) -> const Anchor& {
    return anchors[static_cast<std::size_t>(sighting.anchor)];
  };
  const auto way = [&](const Sighting& sighting) {
    return (sighting.pixel - anchor_of(sighting).pixel).norm();
  };
  std::map<std::pair<int, int>, std::vector<double>> ways;  // of pairs of frames, those that move
  for (const Sighting& sighting : sightings) {
    const double moved = way(sighting);
    if (moved >= kStill) ways[{anchor_of(sighting).frame, sighting.frame}].push_back(moved);
  }
  std::set<std::pair<int, int>> moving;
  for (auto& [pair, moved] : ways) {
    if (moved.size() >= kFewestMoving && median(std::span(moved)) >= kMoving) moving.insert(pair);
  }
  std::vector<int> still(anchors.size(), 0);  // -1: moves
  for (const Sighting& sighting : sightings) {
    int& count = still[static_cast<std::size_t>(sighting.anchor)];
    if (way(sighting) >= kStill) {
      count = -1;
    } else if (count >= 0 && moving.contains({anchor_of(sighting).frame, sighting.frame})) {
      ++count;
    }
  }
  const auto all = static_cast<double>(sightings.size() + 1);
  const std::size_t dropped = std::erase_if(sightings, [&](const Sighting& sighting) {
    return still[static_cast<std::size_t>(sighting.anchor)] >= kFewestStill;
  });
  return static_cast<double>(dropped) / all;
}

}  // namespace vggt
