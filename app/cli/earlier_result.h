#pragma once
#include <string>

namespace vggt {

/// Of a run whose place nobody named: throws std::invalid_argument where `out` cannot be written, or holds
/// files that are not the result of these frames, so that walk.mov does not replace what walk.mp4 gave.
void check_earlier_result(const std::string& frames, const std::string& out);

}  // namespace vggt
