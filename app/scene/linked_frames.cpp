#include "app/scene/linked_frames.h"

#include <algorithm>
#include <numeric>

namespace vggt {

std::vector<int> first_linked(std::size_t frames, const std::vector<std::pair<int, int>>& links) {
  std::vector<int> root(frames);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int i) {
    while (root[static_cast<std::size_t>(i)] != i) i = root[static_cast<std::size_t>(i)];
    return i;
  };
  for (const auto& [from, to] : links) {
    const int a = find(from), b = find(to);
    root[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
  for (int& of_frame : root) of_frame = find(of_frame);
  return root;
}

}  // namespace vggt
