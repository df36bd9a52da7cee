#include "app/options/spelling.h"

#include <algorithm>
#include <cstdlib>

namespace vggt {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> table((a.size() + 1) * columns);
  auto at = [&](std::size_t i, std::size_t j) -> int& { return table[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = static_cast<int>(i + j);
        continue;
      }
      const int substituted = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return table.back();
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  // The distance of a long text to any name is about its length: its beginning tells as much.
  const std::string_view beginning = name.substr(0, 64);
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : known) {
    const int distance = edit_distance(beginning, candidate);
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace vggt
