#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vggt {

/// What a frame can be recognised by.
struct FrameKey {
  std::string name;  // empty: none
  std::optional<double> time_s;
};

/// Frames that two sides share, and those that only one has.
struct FrameMatch {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // positions in the result and in the truth,
                                                           // ordered by what they were matched by
  std::vector<std::string> only_result, only_truth;
};

/// What messages call the two sides.
struct MatchNames {
  const char* result = "result";
  const char* truth = "truth";
};

/// Matches by name where both sides have names: as spelt, by the last three or two parts of the path, by the
/// file's name, by that without its extension, or by a video frame's name where it is exported
/// (room_000012 of room.mp4#12), whichever finds most. Else matches by time (the nearest within a hundredth
/// of the smallest step of the truth), else by position. Throws std::invalid_argument: one side has names
/// only and the other times only, a name or time is there twice, or the numbers of frames differ where only
/// positions are known.
FrameMatch match_frames(const std::vector<FrameKey>& result, const std::vector<FrameKey>& truth,
                        const MatchNames& names = {});

}  // namespace vggt
