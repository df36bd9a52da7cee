#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace vggt {

/// Of each frame the first one of those that links lead to from it, itself included: frames of one number
/// belong together. links: pairs of frames.
std::vector<int> first_linked(std::size_t frames, const std::vector<std::pair<int, int>>& links);

}  // namespace vggt
