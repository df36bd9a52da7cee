#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vggt {

/// What a frame can be known by.
struct FrameKey {
  std::string name;  // empty: none
  std::optional<double> time_s;
};

/// Frames that two sides share, and those that only one has.
struct FrameMatch {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // positions: result, truth; by name or time
  std::vector<std::string> only_result, only_truth;
};

/// Matches by name where both sides have names (as spelt, else the file name, else that without extension:
/// whichever finds most), else by time (the nearest within a hundredth of the smallest step of the truth),
/// else by position. Throws std::invalid_argument: nothing in common to go by, a name or time that is there
/// twice, different numbers of frames where only the position is known.
FrameMatch match_frames(const std::vector<FrameKey>& result, const std::vector<FrameKey>& truth);

}  // namespace vggt
