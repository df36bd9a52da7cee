#pragma once
#include <optional>
#include <string_view>

namespace vggt {

/// max_num_ref_frames of an H.264 sequence parameter set (ITU-T H.264, 7.3.2.1.1): how many decoded frames
/// others may be predicted from. sps: the NAL unit, its header byte first. Nothing where it is damaged.
std::optional<int> h264_reference_frames(std::string_view sps);

/// vps_max_dec_pic_buffering_minus1 of an HEVC video parameter set (ITU-T H.265, 7.3.2.1), the most of its
/// sub-layers: how many decoded frames are kept beside the one at work. Nothing where it is damaged.
std::optional<int> hevc_kept_frames(std::string_view vps);

}  // namespace vggt
