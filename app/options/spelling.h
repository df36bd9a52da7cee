#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours.
int edit_distance(std::string_view a, std::string_view b);

/// The known name with the smallest edit distance; the first of equals; empty if none is known.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace vggt
