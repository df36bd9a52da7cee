#pragma once
#include <cstddef>
#include <string_view>

namespace vggt {

/// Bytes of the UTF-8 character that the text begins with; 0: it begins with none.
std::size_t utf8_length(std::string_view text);

}  // namespace vggt
