#pragma once
#include <optional>
#include <string_view>

namespace vggt {

/// max_num_ref_frames of an H.264 sequence parameter set (ITU-T H.264, 7.3.2.1.1): how many decoded frames
/// others may be predicted from. sps: the NAL unit, its header byte first. Nothing where it is damaged.
std::optional<int> h264_reference_frames(std::string_view sps);

}  // namespace vggt
